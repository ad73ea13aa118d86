"""What travels between a source and a replica: valid forms, and refusals of others."""

import pytest

from penstock.broker.errors import PreconditionFailed
from penstock.broker.replicas.feed_batch import (
    BATCH_HEAD,
    BadBatch,
    FeedBatch,
    FeedGreeting,
    decode_held,
    encode_greeting,
    encode_held,
)
from penstock.broker.store import records


def test_ids_that_a_replica_has_come_back_as_ranges() -> None:
    octets = encode_held([(1, 3), (1 << 40, 1 << 33)])
    found = decode_held(octets, 1 << 50)
    assert found[0] == (1, 4)
    # A range of more ids than its count can say is several.
    assert (found[1][0], found[-1][1]) == (1 << 40, (1 << 40) + (1 << 33))


@pytest.mark.parametrize(
    ("ranges", "fault"),
    [
        ([(0, 1)], "not a valid range"),
        ([(5, 2), (6, 1)], "not a valid range"),
        ([(1 << 62, 1)], "not a valid range"),
        ([(9, 3)], "the replica has message 11, and the next one of this queue is 10"),
    ],
)
def test_ids_that_cannot_be_are_refused(ranges: list[tuple[int, int]], fault: str) -> None:
    with pytest.raises(PreconditionFailed, match=fault):
        decode_held(encode_held(ranges), 10)


def test_half_a_range_is_refused() -> None:
    with pytest.raises(PreconditionFailed, match="cut short"):
        decode_held(b"12345", 10)


def test_a_greeting_is_read() -> None:
    greeting = FeedGreeting(encode_greeting("store/1", is_accepted=True))
    assert (greeting.incarnation, greeting.is_accepted) == ("store/1", True)
    for body in (b"\xff", b"[]", b"{}", b'{"incarnation": 5}', b'{"incarnation": ""}'):
        with pytest.raises(BadBatch):
            FeedGreeting(body)


def test_a_batch_is_read_and_what_is_not_one_is_refused() -> None:
    pieces = [BATCH_HEAD.pack(5, 9, 4)]
    records.append_dequeued(pieces, 1, 0, [records.encode_range(2, 3)])
    body = b"".join(pieces)
    batch = FeedBatch(body)
    assert (batch.walked, batch.end, batch.count, batch.gone) == (5, 9, 4, [(2, 3)])
    for cut in range(1, len(body)):
        if cut != BATCH_HEAD.size:
            with pytest.raises(BadBatch):
                FeedBatch(body[:cut])
    definition = b"".join([pieces[0], bytes([records.DEFINITION]), (2).to_bytes(4, "big"), b"{}"])
    with pytest.raises(BadBatch, match="kind 3"):
        FeedBatch(definition)
