"""Messages survive the wire, and bad octets are refused with a reason."""

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.formats.peer_limits import BadPeerMessage
from penstock.ha import messages

EPOCHS = st.integers(0, (1 << 32) - 1)
NONCES = st.integers(0, (1 << 64) - 1)
COUNTS = st.integers(0, (1 << 63) - 2)


@given(EPOCHS, NONCES, EPOCHS, COUNTS, st.lists(st.binary(max_size=9), min_size=1, max_size=4))
def test_a_join_says_which_of_its_messages_is_the_last(
    epoch: int, nonce: int, syn_epoch: int, k: int, parts: list[bytes]
) -> None:
    sent = messages.encode_join(epoch, nonce, syn_epoch, k, parts)
    heads = [messages.decode_join(octets) for octets in sent]
    assert [octets[messages.JOIN_HEAD_SIZE :] for octets in sent] == parts
    assert [head.is_last for head in heads] == [False] * (len(parts) - 1) + [True]
    for head in heads:
        assert (head.epoch, head.nonce, head.syn_epoch, head.syn_k) == (epoch, nonce, syn_epoch, k)


@given(EPOCHS, NONCES, COUNTS, st.lists(st.binary(max_size=9), max_size=4), st.binary())
def test_a_sync_carries_ids_then_values_in_bounded_messages(
    epoch: int, nonce: int, k: int, parts: list[bytes], values: bytes
) -> None:
    sent = messages.encode_sync(epoch, nonce, k, parts, values, 3)
    heads = [messages.decode_sync(octets) for octets in sent]
    contents = [octets[messages.SYNC_HEAD_SIZE :] for octets in sent]
    assert contents[: len(parts)] == parts
    assert b"".join(contents[len(parts) :]) == values
    assert [head.has_values for head in heads] == [n >= len(parts) for n in range(len(sent))]
    assert [head.is_last for head in heads] == [False] * (len(sent) - 1) + [True]
    assert all(len(content) <= 3 for content in contents[len(parts) :])
    assert {(head.epoch, head.nonce, head.k) for head in heads} == {(epoch, nonce, k)}


@given(EPOCHS, NONCES, COUNTS)
def test_a_resume_survives_the_wire(epoch: int, nonce: int, k: int) -> None:
    resume = messages.decode_resume(messages.encode_resume(epoch, nonce, k))
    assert (resume.epoch, resume.nonce, resume.k) == (epoch, nonce, k)


@given(EPOCHS, st.integers(-1, 1 << 62), COUNTS)
def test_an_ack_survives_the_wire_with_and_without_a_position(
    epoch: int, k: int, piece_bytes: int
) -> None:
    ack = messages.decode_ack(messages.encode_ack(epoch, k, piece_bytes))
    assert (ack.epoch, ack.k, ack.piece_bytes) == (epoch, k, piece_bytes)


@given(EPOCHS, COUNTS, st.integers(-1, 1 << 62), st.lists(st.binary(), max_size=4))
def test_an_operation_survives_the_wire_in_pieces(
    epoch: int, k: int, committed: int, pieces: list[bytes]
) -> None:
    checksum = messages.operation_checksum(pieces)
    head = messages.encode_operation_head(epoch, k, committed, checksum)
    found = messages.decode_operation_head(b"".join([head, *pieces]))
    assert (found.epoch, found.k, found.committed) == (epoch, k, committed)


@given(st.binary(min_size=1, max_size=60), st.data())
def test_an_operation_that_was_changed_or_cut_short_is_refused(
    operation: bytes, data: st.DataObject
) -> None:
    octets = bytearray(
        messages.encode_operation_head(1, 2, 1, messages.operation_checksum([operation]))
        + operation
    )
    if data.draw(st.booleans()):
        del octets[data.draw(st.integers(messages.OP_HEAD_SIZE, len(octets) - 1)) :]
    else:
        at = data.draw(st.integers(messages.OP_HEAD_SIZE, len(octets) - 1))
        octets[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(BadPeerMessage, match="checksum"):
        messages.decode_operation_head(bytes(octets))


DECODERS: list[Callable[[bytes], object]] = [
    messages.decode_join,
    messages.decode_resume,
    messages.decode_sync,
    messages.decode_piece_head,
    messages.decode_operation_head,
    messages.decode_ack,
]


@pytest.mark.parametrize("decode", DECODERS)
@given(octets=st.binary(max_size=60))
def test_any_octets_are_read_or_refused(decode: Callable[[bytes], object], octets: bytes) -> None:
    with contextlib.suppress(BadPeerMessage):
        decode(octets)


@pytest.mark.parametrize("decode", DECODERS)
def test_a_message_that_is_cut_short_is_refused(decode: Callable[[bytes], object]) -> None:
    with pytest.raises(BadPeerMessage):
        decode(b"\0\0\0")


def test_unknown_flags_and_numbers_that_are_too_large_are_refused() -> None:
    join = bytearray(messages.encode_join(1, 2, 1, 5, [b""])[0])
    join[12] = 8
    with pytest.raises(BadPeerMessage, match="flags of a JOIN"):
        messages.decode_join(bytes(join))
    sync = bytearray(messages.encode_sync(1, 2, 5, [], b"", 9)[0])
    sync[12] = 16
    with pytest.raises(BadPeerMessage, match="flags of a SYNC"):
        messages.decode_sync(bytes(sync))
    ack = messages.encode_ack(1, 2, 3)[:4] + b"\xff" * 8 + bytes(8)
    with pytest.raises(BadPeerMessage, match="not a valid number in ACK"):
        messages.decode_ack(ack)
    with pytest.raises(BadPeerMessage, match="21 octets"):
        messages.decode_ack(messages.encode_ack(1, 2, 3) + b"x")
