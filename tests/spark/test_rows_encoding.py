"""Rows of Arrow become messages, without Spark and without a broker."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

from penstock.client.encoding import encode_publish
from penstock.spark.errors import PipelineError
from penstock.spark.octet_pieces import as_array
from penstock.spark.rows_encoding import encode_rows
from penstock.wire.amqp091.content import BasicProperties, decode_properties
from penstock.wire.amqp091.field_table import Timestamp
from tests.server.http.rows import read_block

TEXTS = pa.map_(pa.string(), pa.string())


def batch() -> pa.RecordBatch:
    return pa.record_batch(
        {
            "routing_key": ["a", "bb", "é", ""],
            "body": [b"1", None, b"333", b"4444"],
            "message_id": ["x", None, "zz", "y"],
            "priority": pa.array([1, None, 0, 255], pa.int32()),
            "headers": pa.array(
                [[("k", "v")], None, [("k", None), ("é", "w")], []],
                TEXTS,
            ),
            "timestamp": pa.array([1_999_999, 2_000_000, None, 0], pa.timestamp("us", "UTC")),
        }
    )


EXPECTED = [
    ("a", b"1", BasicProperties(None, None, {"k": "v"}, 2, 1, message_id="x", timestamp=1)),
    ("bb", b"", BasicProperties(delivery_mode=2, timestamp=2)),
    ("é", b"333", BasicProperties(None, None, {"k": None, "é": "w"}, 2, 0, message_id="zz")),
    ("", b"4444", BasicProperties(None, None, {}, 2, 255, message_id="y", timestamp=0)),
]


@pytest.mark.parametrize("first", [0, 1, 3])
def test_every_column_finds_its_place_also_in_a_slice(first: int) -> None:
    rows = encode_rows(batch().slice(first), "e", None)
    [(count, octets)] = rows.blocks(10_000, 100)
    assert count == 4 - first
    found = read_block(octets, has_checksums=False)
    assert [row[:2] for row in found] == [row[:2] for row in EXPECTED[first:]]
    headers = [decode_properties(header) for header in as_array(rows.header).to_pylist()]
    assert headers == [row[2] for row in EXPECTED[first:]]


@pytest.mark.parametrize("first", [0, 1, 3])
def test_frames_are_those_of_the_client(first: int) -> None:
    octets, ends = encode_rows(batch().slice(first), "e", None).frames(7, True)
    assert cut(octets, ends) == [
        encode_publish(7, "e", key, body, 0, properties, True)
        for key, body, properties in EXPECTED[first:]
    ]


def cut(octets: memoryview, ends: Any) -> list[bytes]:
    return [bytes(octets[start:end]) for start, end in itertools.pairwise(ends)]


@pytest.mark.parametrize(
    ("keys", "bodies"),
    [
        (["a", "b", "c"], [b"11", b"22", b"33"]),
        (["a", "bb", "c"], [b"11", b"22", b"33"]),
        (["a", "b", "c"], [b"1", b"22", b"333"]),
        (["a", "b", "c"], [b"", b"", b""]),
        (["", "", ""], [b"11", b"22", b"33"]),
        (["a"], [b"1"]),
        ([], []),
    ],
)
@pytest.mark.parametrize("skipped", [0, 1])
def test_rows_of_one_size_and_of_many_come_out_alike(
    keys: list[str], bodies: list[bytes], skipped: int
) -> None:
    columns = {
        "routing_key": pa.array(["skipped", *keys], pa.string()),
        "body": pa.array([b"skipped", *bodies], pa.binary()),
    }
    wanted = list(zip(["skipped", *keys], [b"skipped", *bodies], strict=True))[skipped:]
    rows = encode_rows(pa.record_batch(columns).slice(skipped), "e", None)
    assert len(rows) == len(wanted)
    found = [
        row[:2]
        for _, octets in rows.blocks(10_000, 2)
        for row in read_block(octets, has_checksums=False)
    ]
    assert found == wanted
    persistent = BasicProperties(delivery_mode=2)
    assert cut(*rows.frames(1, False)) == [
        encode_publish(1, "e", key, body, 0, persistent) for key, body in wanted
    ]


def test_a_block_has_no_more_octets_and_rows_than_asked_for() -> None:
    rows = encode_rows(pa.record_batch({"body": [b"x" * 100] * 100}), "", "k")
    blocks = list(rows.blocks(1000, 100))
    assert all(len(octets) <= 1000 for _, octets in blocks)
    assert sum(count for count, _ in blocks) == 100
    assert {count for count, _ in blocks[:-1]} == {6}
    found = [len(read_block(octets, has_checksums=False)) for _, octets in blocks]
    assert found == [count for count, _ in blocks]
    assert [count for count, _ in rows.blocks(100_000, 30)] == [30, 30, 30, 10]
    # One that is larger than a block stands alone.
    assert [count for count, _ in rows.blocks(10, 30)] == [1] * 100


@pytest.mark.parametrize(
    ("column", "values", "text"),
    [
        ("routing_key", ["a", None], "'routing_key' is null in 1 of 2 rows"),
        ("routing_key", ["a", "k" * 256], "'routing_key' has a value of 256 bytes"),
        ("type", ["é" * 128, ""], "'type' has a value of 256 bytes"),
        ("priority", [256, 1], "'priority' has a value that is not between 0 and 255"),
        ("delivery_mode", [-1, 1], "'delivery_mode' has a value"),
    ],
)
def test_values_that_no_message_can_have_are_errors(
    column: str, values: list[object], text: str
) -> None:
    rows = pa.record_batch({"body": [b"", b""], column: values})
    with pytest.raises(PipelineError, match=text):
        encode_rows(rows, "", None if column == "routing_key" else "k")


def test_headers_are_written_with_the_types_that_are_named() -> None:
    texts = pa.map_(pa.string(), pa.string())
    batch = pa.record_batch(
        {
            "headers": pa.array(
                [
                    [("count", "5"), ("text", "5"), ("raw", "/wA="), ("gone", None)],
                    None,
                    [("at", "1700000000"), ("deep", '{"raw": {"$binary": "/w=="}}')],
                    [("plain", "x")],
                ],
                texts,
            ),
            "header_types": pa.array(
                [
                    [("raw", "binary"), ("count", "integer"), ("gone", "void")],
                    [],
                    [("at", "timestamp"), ("deep", "table")],
                    None,
                ],
                texts,
            ),
            "body": pa.array([b""] * 4, pa.binary()),
        }
    )
    rows = encode_rows(batch, "", "k")
    found = [decode_properties(header).headers for header in as_array(rows.header).to_pylist()]
    assert found == [
        {"count": 5, "text": "5", "raw": b"\xff\x00", "gone": None},
        None,
        {"at": Timestamp(1_700_000_000), "deep": {"raw": b"\xff"}},
        {"plain": "x"},
    ]


def test_a_header_that_is_not_of_its_type_is_refused() -> None:
    texts = pa.map_(pa.string(), pa.string())
    batch = pa.record_batch(
        {
            "headers": pa.array([[("count", "many")]], texts),
            "header_types": pa.array([[("count", "integer")]], texts),
            "body": pa.array([b""], pa.binary()),
        }
    )
    with pytest.raises(PipelineError, match="'many' is not a valid integer"):
        encode_rows(batch, "", "k")
