"""Control messages: what is written is read, and anything else is refused with a reason."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cluster.messages import (
    KIND_NAMES,
    MESSAGE_BYTES_MAX,
    NACK,
    RECORD,
    RECORD_OK,
    RELEASE,
    ROOT,
    ROOT_OK,
    ControlMessage,
    decode_message,
    encode_message,
)
from penstock.cluster.record import EPOCH_MAX
from penstock.formats.peer_limits import BadPeerMessage
from tests.cluster.doubles import CLUSTER_ID, record_of

WITHOUT_RECORD = (ROOT_OK, RECORD_OK, RELEASE, NACK)


def message_of(kind: int) -> ControlMessage:
    record = None if kind in WITHOUT_RECORD else record_of(4, 2)
    message = ControlMessage(kind, CLUSTER_ID, 4, record)
    if kind in (ROOT, ROOT_OK):
        message.sent_at = 123_456_789
    if kind == ROOT:
        message.is_active = True
        message.granted = 2
        message.committed_k = 77
    if kind in (ROOT, RECORD):
        message.reason = "'c' was removed"
    if kind == RECORD_OK:
        message.accepted = (4, 2)
    if kind == RELEASE:
        message.heir = "b"
    return message


def fields(message: ControlMessage) -> list[object]:
    return [
        *(message.kind, message.cluster_id, message.epoch, message.record, message.sent_at),
        *(message.is_active, message.granted, message.committed_k),
        *(message.accepted, message.heir, message.reason),
    ]


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_a_message_is_read_as_it_was_written(kind: int) -> None:
    message = message_of(kind)
    assert fields(decode_message(kind, encode_message(message))) == fields(message)


def test_a_root_that_has_committed_nothing_says_so() -> None:
    message = message_of(ROOT)
    message.committed_k = -1
    assert decode_message(ROOT, encode_message(message)).committed_k == -1


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_a_message_that_is_cut_short_or_goes_on_is_refused(kind: int) -> None:
    octets = encode_message(message_of(kind))
    for size in range(len(octets)):
        with pytest.raises(BadPeerMessage):
            decode_message(kind, octets[:size])
    with pytest.raises(BadPeerMessage):
        decode_message(kind, octets + b"\0")


@pytest.mark.parametrize("kind", [ROOT, RECORD])
def test_a_reason_is_cut_where_a_short_string_ends(kind: int) -> None:
    message = message_of(kind)
    message.reason = "x" + "\u00e9" * 200
    read = decode_message(kind, encode_message(message))
    assert read.reason == "x" + "\u00e9" * 127
    assert read.record == message.record


@pytest.mark.parametrize("kind", [ROOT, RECORD])
def test_a_reason_that_cannot_be_shown_is_refused(kind: int) -> None:
    message = message_of(kind)
    message.reason = "two\nlines"
    with pytest.raises(BadPeerMessage, match="not printable"):
        decode_message(kind, encode_message(message))


@pytest.mark.parametrize("kind", [0, 19, 31, 255])
def test_an_unknown_kind_is_refused(kind: int) -> None:
    with pytest.raises(BadPeerMessage, match="not a valid kind"):
        decode_message(kind, encode_message(message_of(NACK)))


def test_a_message_above_the_limit_is_refused() -> None:
    with pytest.raises(BadPeerMessage, match="most allowed"):
        decode_message(NACK, bytes(MESSAGE_BYTES_MAX + 1))


def test_an_epoch_above_the_limit_is_refused() -> None:
    message = message_of(NACK)
    message.epoch = EPOCH_MAX + 1
    with pytest.raises(BadPeerMessage, match="the highest is"):
        decode_message(NACK, encode_message(message))


def test_a_record_of_another_epoch_than_its_proposal_is_refused() -> None:
    message = message_of(RECORD)
    message.epoch = 5
    with pytest.raises(BadPeerMessage, match="has a record of epoch 4"):
        decode_message(RECORD, encode_message(message))


@pytest.mark.parametrize("kind", [kind for kind in KIND_NAMES if kind not in WITHOUT_RECORD])
def test_a_message_with_a_record_of_a_later_epoch_is_refused(kind: int) -> None:
    message = message_of(kind)
    message.epoch = 3
    with pytest.raises(BadPeerMessage, match="has a record of epoch 4"):
        decode_message(kind, encode_message(message))


def test_the_name_of_an_heir_is_checked() -> None:
    message = message_of(RELEASE)
    message.heir = "not a name"
    with pytest.raises(BadPeerMessage, match="not a valid server name"):
        decode_message(RELEASE, encode_message(message))


def check_read_or_refused(kind: int, octets: bytes) -> None:
    """What is read says exactly what it was read from."""
    try:
        message = decode_message(kind, octets)
    except BadPeerMessage:
        return
    assert encode_message(message) == octets


@settings(max_examples=300)
@given(st.sampled_from(sorted(KIND_NAMES)), st.binary(max_size=400))
def test_any_octets_are_read_or_refused(kind: int, octets: bytes) -> None:
    check_read_or_refused(kind, octets)


@settings(max_examples=500)
@given(
    st.sampled_from(sorted(KIND_NAMES)),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=6),
)
def test_a_damaged_message_is_read_or_refused(kind: int, damage: list[tuple[int, int]]) -> None:
    octets = bytearray(encode_message(message_of(kind)))
    for place, octet in damage:
        octets[place % len(octets)] = octet
    check_read_or_refused(kind, bytes(octets))
