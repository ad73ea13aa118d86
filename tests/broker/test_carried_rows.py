"""Messages in bulk: what goes out comes in again, and what is damaged is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.carried_rows import decode_rows, encode_rows
from penstock.broker.entry import QueueEntry
from penstock.broker.errors import PreconditionFailed
from penstock.broker.message import NOBODY, Address, Message, MessageDecoder
from penstock.dialects.amqp091.properties import read_properties
from tests.broker.store.doubles import message


class PlainDecoder(MessageDecoder):
    def decode(self, exchange: str, routing_key: str, header: bytes, body: bytes) -> Message:
        return Message(Address(exchange, routing_key, b""), read_properties(header), body, NOBODY)


def rows_of(*messages: Message) -> bytes:
    return encode_rows([QueueEntry(sent, 1) for sent in messages], wall=1_700_000_000_000)


@given(
    st.lists(
        st.tuples(st.text(max_size=20), st.text(max_size=20), st.binary(max_size=300)), max_size=8
    )
)
def test_what_is_encoded_is_decoded(contents: list[tuple[str, str, bytes]]) -> None:
    sent = [message(body, exchange=name, key=key) for name, key, body in contents]
    found = decode_rows(rows_of(*sent), PlainDecoder())
    assert [
        (one.address.exchange, one.address.routing_key, one.properties.encoded(), one.body)
        for one in found
    ] == [
        (one.address.exchange, one.address.routing_key, one.properties.encoded(), one.body)
        for one in sent
    ]


def test_every_damaged_octet_is_noticed() -> None:
    rows = rows_of(message(b"one"), message(b"two"))
    # The two octets of each entry that say when a segment was safe mean nothing here.
    unread = {8 + 32 * entry + at for entry in range(2) for at in range(28, 32)}
    for at in range(len(rows)):
        if at in unread:
            continue
        damaged = bytearray(rows)
        damaged[at] ^= 0x41
        with pytest.raises(PreconditionFailed, match="these are no rows"):
            decode_rows(bytes(damaged), PlainDecoder())


def test_every_cut_is_noticed() -> None:
    rows = rows_of(message(b"one"))
    for size in range(len(rows)):
        with pytest.raises(PreconditionFailed, match="these are no rows"):
            decode_rows(rows[:size], PlainDecoder())
