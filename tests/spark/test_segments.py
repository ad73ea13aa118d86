"""Octets of segments into record batches, without Spark."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.spark.columns import COLUMNS, arrow_schema
from penstock.spark.errors import SegmentDamaged
from penstock.spark.row_filter import RowFilter, read_filter
from penstock.spark.segments import BATCH_BYTES, BATCH_ROWS, RowDecoder, batch_extents, read_index
from penstock.wire.amqp091.content import BasicProperties, encode_header
from penstock.wire.amqp10.encoding import encode_value
from penstock.wire.amqp10.performatives_generated import Header, Properties
from penstock.wire.amqp10.values import Symbol
from tests.spark.rows_written import Row, written

PLAIN = encode_header(0, BasicProperties())


def decoded(
    rows: list[Row], *columns: str, row_filter: RowFilter | None = None, verify: bool = True
) -> list[dict[str, object]]:
    index, log, size = written(rows)
    decoder = RowDecoder(columns or tuple(COLUMNS), "orders", 3, row_filter, verify)
    found: list[dict[str, object]] = []
    for batch in decoder.batches(read_index(index), log, size, 32, 1000):
        batch.validate(full=True)
        assert batch.schema.equals(arrow_schema(columns or COLUMNS))
        found += batch.to_pylist()
    return found


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.text(max_size=20).map(str.encode),
            st.text(max_size=30).map(str.encode),
            st.just(PLAIN),
            st.binary(max_size=400),
        ).map(lambda parts: Row(*parts)),
        min_size=1,
        max_size=40,
    )
)
def test_names_and_bodies_of_any_length_come_out_as_they_went_in(rows: list[Row]) -> None:
    found = decoded(rows, "exchange", "routing_key", "body", "offset")
    assert found == [
        {
            "exchange": row.exchange.decode(),
            "routing_key": row.key.decode(),
            "body": row.body,
            "offset": 1000 + number,
        }
        for number, row in enumerate(rows)
    ]


def test_a_name_that_is_no_text_is_shown_all_the_same() -> None:
    found = decoded(
        [Row(b"", b"\xff\xfe", PLAIN, b""), Row(b"", b"good", PLAIN, b"")], "routing_key"
    )
    assert [row["routing_key"] for row in found] == ["��", "good"]


def test_heads_that_differ_only_in_the_size_of_the_body_are_decoded_once() -> None:
    properties = BasicProperties(headers={"n": 1}, message_id="m")
    rows = [Row(b"", b"k", encode_header(size, properties), bytes(size)) for size in range(50)]
    index, log, size = written(rows)
    decoder = RowDecoder(("headers", "id"), "orders", 0)
    (batch,) = decoder.batches(read_index(index), log, size, 32, 0)
    assert batch.to_pylist() == [{"headers": [("n", "1")], "id": "m"}] * 50
    assert len(decoder._heads) == 1


def test_an_amqp_10_message_becomes_the_same_kind_of_row() -> None:
    head = b"".join(
        [
            Header(durable=True, priority=7, ttl=5000).encode(),
            b"\x00\x53\x72" + encode_value({Symbol("x-basic-type"): "order"}),
            Properties(
                message_id="m-1", content_type="text/plain", creation_time=1_700_000_000_000
            ).encode(),
            b"\x00\x53\x74" + encode_value({"region": "eu", "count": 5}),
        ]
    )
    data = [
        b"\x00\x53\x75\xa0\x05hello",
        b"\x00\x53\x75\xb0" + (300).to_bytes(4, "big") + bytes(300),
    ]
    bodies = [*data, b"\x00\x53\x75\xa0\x01a\x00\x53\x75\xa0\x01b", b"\x00\x53\x77\xa1\x02hi", b""]
    rows = [Row(b"e", b"k", head, body) for body in bodies]
    rows.append(
        Row(b"e", b"k", encode_header(3, BasicProperties(message_id="old")), b"\x00\x53\x75")
    )
    found = decoded(rows)
    assert [row["body"] for row in found] == [
        b"hello",
        bytes(300),
        b"ab",
        # As a consumer of AMQP 0-9-1 gets it, with a type that says so.
        b"\x00\x53\x77\xa1\x02hi",
        b"",
        b"\x00\x53\x75",
    ]
    first = found[0]
    assert dict(first["headers"]) == {"region": "eu", "count": "5"}  # type: ignore[call-overload]
    told = first["properties"]
    assert isinstance(told, dict)
    assert (told["delivery_mode"], told["priority"], told["expiration"]) == (2, 7, "5000")
    assert (told["content_type"], told["type"], told["message_id"]) == (
        "text/plain",
        "order",
        "m-1",
    )
    assert told["timestamp"].timestamp() == 1_700_000_000
    assert (first["id"], found[-1]["id"]) == ("m-1", "old")


def test_a_head_that_cannot_be_read_gives_nulls() -> None:
    (row,) = decoded([Row(b"", b"k", PLAIN[:-2] + b"\x80\x00\x09", b"x")])
    assert (row["headers"], row["properties"], row["id"], row["body"]) == (None, None, None, b"x")


def test_the_flag_of_a_delivered_message_becomes_a_column() -> None:
    rows = [Row(b"", b"k", PLAIN, b"", flags=flags) for flags in (0, 1, 4, 5)]
    assert [row["redelivered"] for row in decoded(rows, "redelivered")] == [
        False,
        False,
        True,
        True,
    ]


def test_batches_are_bounded_by_rows_and_by_octets() -> None:
    rows = [Row(b"", b"k", PLAIN, b"") for _ in range(2 * BATCH_ROWS + 1)]
    extents = list(batch_extents(read_index(written(rows)[0])))
    assert extents == [(0, 10_000), (10_000, 20_000), (20_000, 20_001)]
    large = bytes(BATCH_BYTES // 2)
    index = read_index(
        written([Row(b"", b"k", PLAIN, large * 3), *[Row(b"", b"", b"", large)] * 3])[0]
    )
    assert list(batch_extents(index)) == [(0, 1), (1, 2), (2, 3), (3, 4)]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("key: #", ["", "a", "a.b", "a.b.c", "b"]),
        ("key: a.#", ["a", "a.b", "a.b.c"]),
        ("key: *", ["a", "b"]),
        ("key: a.*", ["a.b"]),
        ("key: #.b.#", ["a.b", "a.b.c", "b"]),
        ("key: a.b; header: n=1", ["a.b"]),
        ("header: n=2", []),
    ],
)
def test_a_filter_takes_what_a_topic_exchange_would(text: str, keys: list[str]) -> None:
    head = encode_header(0, BasicProperties(headers={"n": 1}))
    rows = [Row(b"", key.encode(), head, b"") for key in ("", "a", "a.b", "a.b.c", "b")]
    found = decoded(rows, "routing_key", "offset", row_filter=read_filter(text))
    assert [row["routing_key"] for row in found] == keys
    if len(keys) == 1:
        assert found[0]["offset"] == 1002


def test_an_index_that_does_not_belong_to_its_log_is_noticed() -> None:
    index, log, size = written([Row(b"ex", b"key", PLAIN, b"body%d" % n) for n in range(5)])
    decoder = RowDecoder(("body",), "orders", 0)

    def read(index: bytes, size: int, position: int) -> list[pa.RecordBatch]:
        return list(decoder.batches(read_index(index), log, size, position, 0))

    assert len(read(index, size, 32)[0]) == 5
    for wrong in ((index, size, 31), (index, size - 1, 32), (index[32:] + index[:32], size, 32)):
        with pytest.raises(SegmentDamaged):
            read(*wrong)
    with pytest.raises(SegmentDamaged, match="ends within an entry"):
        read_index(index[:-1])


def test_verify_finds_a_flipped_bit_and_names_the_offset() -> None:
    index, log, size = written([Row(b"ex", b"key", PLAIN, b"body") for _ in range(5)])
    log[size - 1] ^= 1
    plain = RowDecoder(("body",), "orders", 0)
    assert sum(len(batch) for batch in plain.batches(read_index(index), log, size, 32, 70)) == 5
    careful = RowDecoder(("body",), "orders", 0, verify=True)
    with pytest.raises(SegmentDamaged, match="offset 74"):
        list(careful.batches(read_index(index), log, size, 32, 70))


def test_times_are_those_of_the_index() -> None:
    (row,) = decoded([Row(b"", b"", PLAIN, b"", timestamp=1_700_000_000_123)], "timestamp")
    moment = np.datetime64(1_700_000_000_123, "ms").astype(object)
    assert row["timestamp"].replace(tzinfo=None) == moment  # type: ignore[attr-defined]


def test_one_head_for_all_rows_and_several_give_the_same_columns() -> None:
    several = [
        BasicProperties(headers={"a": "x", "b": None}, message_id="m", priority=3),
        BasicProperties(headers={}, timestamp=5),
        BasicProperties(),
    ]
    heads = [encode_header(1, properties) for properties in several]
    together = decoded(
        [Row(b"", b"k", head, b"1") for head in heads], "headers", "properties", "id"
    )
    for head, row in zip(heads, together, strict=True):
        assert decoded([Row(b"", b"k", head, b"1")] * 3, "headers", "properties", "id") == [row] * 3
