"""Blocks of a stage have the bytes that the drawing says, and their repeats are found."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.formats.stage_block import BlockRows, StagedRows, block_of
from penstock.formats.stream_payload import encode_payload

# Few values, so that many rows repeat the one before and many differ in one thing only.
ROWS = st.lists(
    st.tuples(
        st.sampled_from([b"\x00\x01k", b"\x00\x01l", b"\x01e\x01k"]),
        st.sampled_from([b"", b"h", b"other"]),
        st.sampled_from([b"", b"one", b"two", b"longer"]),
    )
)


def test_a_block_has_known_bytes() -> None:
    payload = encode_payload(b"\x00\x01k", b"h", b"b")
    block = block_of(258, 1, memoryview(payload))
    assert block == b"\x02\x01\0\0\x01\0\0\0\x00\x01k\x01\0\0\0h\x01\0\0\0b"


@given(ROWS)
def test_all_rows_of_a_block_are_read_as_they_were_written(
    rows: list[tuple[bytes, bytes, bytes]],
) -> None:
    payloads = b"".join([encode_payload(*row) for row in rows])
    block = BlockRows(block_of(3, len(rows), memoryview(payloads)))
    assert (block.first, block.count) == (3, len(rows))
    runs = block.runs()
    found = [(run.address, run.header, body) for run in runs for body in run.bodies(0)]
    assert found == rows
    assert b"".join([run.payloads(0, run.count) for run in runs]) == payloads


@given(ROWS)
def test_rows_that_repeat_one_another_are_read_together(
    rows: list[tuple[bytes, bytes, bytes]],
) -> None:
    payloads = b"".join([encode_payload(*row) for row in rows])
    runs = BlockRows(block_of(0, len(rows), memoryview(payloads))).runs()
    kinds = [(address, header, len(body)) for address, header, body in rows]
    changes = [at for at, kind in enumerate(kinds) if at == 0 or kind != kinds[at - 1]]
    assert len(runs) == len(changes)


def test_some_of_the_rows_that_repeat_one_another_are_taken() -> None:
    payloads = [encode_payload(b"\x01e\x02kk", b"h", b"%d" % number) for number in range(5)]
    (run,) = BlockRows(block_of(0, 5, memoryview(b"".join(payloads)))).runs()
    assert (run.exchange(), run.routing_key(), run.body_size) == ("e", "kk", 1)
    assert run.bodies(3) == [b"3", b"4"]
    assert run.payloads(1, 2) == payloads[1] + payloads[2]


def test_rows_on_their_way_are_counted() -> None:
    rows = StagedRows()
    rows.add(2, memoryview(b"ab"))
    rows.add(3, memoryview(b"cde"))
    assert (rows.count, len(rows.parts)) == (5, 2)
