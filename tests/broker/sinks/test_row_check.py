"""Rows from outside: what goes out comes in again, and what is damaged is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.entry import QueueEntry
from penstock.broker.errors import PreconditionFailed
from penstock.broker.leases.lease_rows import encode_lease
from penstock.broker.message import Address, Message
from penstock.broker.sinks.message_rows import rows_of
from penstock.broker.sinks.row_check import NOT_SAID, RowCheck, RowJudge
from penstock.dialects.amqp10.messages.properties import read_head
from penstock.formats.stage_block import (
    BLOCK_BYTES_MAX,
    BLOCK_ROWS_MAX,
    BlockRows,
    StagedRows,
    block_of,
)
from tests.broker.store.doubles import message


class Listener(RowJudge):
    """Lets everything pass and keeps what it was asked."""

    def __init__(self, size: int = NOT_SAID) -> None:
        self.addresses: list[tuple[str, str]] = []
        self.headers: list[bytes] = []
        self.size = size

    def see_address(self, exchange: str, routing_key: str) -> None:
        self.addresses.append((exchange, routing_key))

    def see_header(self, header: bytes) -> int:
        self.headers.append(header)
        return self.size


def carried(*messages: Message) -> bytes:
    return encode_lease([QueueEntry(sent, 1) for sent in messages], wall=1_700_000_000_000)


def checked(
    rows: bytes, judge: RowJudge | None = None, *, has_checksums: bool = True
) -> StagedRows:
    check = RowCheck(rows, judge or Listener(), has_checksums)
    while check.step():
        pass
    return check.found()


def read(rows: StagedRows) -> list[tuple[str, str, bytes, bytes]]:
    found = []
    for count, payloads in rows.parts:
        block = BlockRows(block_of(0, count, payloads))
        for run in block.runs():
            assert run.count == len(run.bodies(0))
            for body in run.bodies(0):
                assert run.body_size == len(body)
                found.append((run.exchange(), run.routing_key(), run.header, body))
    return found


FEW = st.tuples(st.just("x"), st.sampled_from(["a", "b"]), st.sampled_from([b"1", b"2", b"three"]))
MANY = st.tuples(st.text(max_size=20), st.text(max_size=20), st.binary(max_size=300))


@given(st.lists(FEW | MANY, max_size=12))
def test_what_is_carried_comes_in_as_it_was(contents: list[tuple[str, str, bytes]]) -> None:
    sent = [message(body, exchange=name, key=key) for name, key, body in contents]
    found = checked(carried(*sent))
    assert read(found) == [
        (one.address.exchange, one.address.routing_key, one.properties.encoded(), one.body)
        for one in sent
    ]
    assert read(found) == read(rows_of(sent))
    assert found.count == len(sent)


def test_every_damaged_octet_is_noticed() -> None:
    rows = carried(message(b"one"), message(b"two"))
    # The octets of each entry that say when a segment was safe mean nothing here.
    unread = {8 + 32 * entry + at for entry in range(2) for at in range(28, 32)}
    for at in range(len(rows)):
        if at in unread:
            continue
        damaged = bytearray(rows)
        damaged[at] ^= 0x41
        with pytest.raises(PreconditionFailed, match="malformed row block"):
            checked(bytes(damaged))


def test_every_size_that_is_wrong_is_noticed_without_checksums_too() -> None:
    rows = carried(message(b"one"), message(b"two"))
    sizes = [8 + 32 * entry + at for entry in range(2) for at in range(8, 24) if at not in {18, 19}]
    for at in [*range(8), *sizes]:
        damaged = bytearray(rows)
        damaged[at] ^= 0x41
        with pytest.raises(PreconditionFailed, match="malformed row block"):
            checked(bytes(damaged), has_checksums=False)


def test_every_cut_is_noticed() -> None:
    rows = carried(message(b"one"))
    for size in range(len(rows)):
        with pytest.raises(PreconditionFailed, match="malformed row block"):
            checked(rows[:size])


def test_a_judge_is_asked_once_for_rows_that_are_alike() -> None:
    judge = Listener()
    checked(
        carried(*[message(b"%d" % (number % 3), key=f"k{number % 2}") for number in range(8)]),
        judge,
    )
    assert judge.addresses == [("", "k0"), ("", "k1")]
    assert len(judge.headers) == 1


def test_a_judge_is_asked_about_an_empty_header_too() -> None:
    judge = Listener()
    sent = Message(Address("", "q", b""), read_head(b""), b"x", -1)
    checked(carried(sent, sent), judge)
    assert judge.headers == [b""]


def test_a_header_that_says_another_size_of_the_body_is_refused() -> None:
    with pytest.raises(PreconditionFailed, match="announces a body of 4 bytes, but it has 5"):
        checked(carried(message(b"four!")), Listener(4))


def test_an_address_that_is_not_utf_8_is_refused() -> None:
    for sent in (message(b"1", key="\udca1"), message(b"1", exchange="\udca1")):
        with pytest.raises(PreconditionFailed, match="not UTF-8"):
            checked(carried(sent))


@pytest.mark.parametrize("size", [0, 1000])
def test_rows_are_cut_into_blocks_that_a_step_can_publish(size: int) -> None:
    sent = [message(bytes(size)) for _ in range(BLOCK_ROWS_MAX + 1)]
    for rows in (checked(carried(*sent)), rows_of(sent)):
        assert sum(count for count, _ in rows.parts) == rows.count == len(sent)
        assert len(rows.parts) >= 2
        assert max(count for count, _ in rows.parts) <= BLOCK_ROWS_MAX
        assert max(len(payloads) for _, payloads in rows.parts) < BLOCK_BYTES_MAX + 2000
