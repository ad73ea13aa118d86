"""Control messages between the servers of a cluster.

    every message: cluster id (16), epoch u32
    PREVOTE, PREVOTED, VOTE, VOTED, VIEW: a record
    RECORD: why it was proposed (short string), the record
    ROOT: sent at u64, flags u8 (1: active), votes u8, committed position + 1 u64,
        why the record was proposed (short string), a record
    ROOT_OK: sent at u64          RECORD_OK: epoch u32, version u32
    RELEASE: name of the heir     NACK: nothing

The sender's name and store id come from the link. Octets that are cut short, go on behind the end or
exceed a limit are refused with the reason.
"""

from typing import Final

from penstock.cluster.member import check_name
from penstock.cluster.record import (
    CLUSTER_ID_BYTES,
    EPOCH_MAX,
    ClusterRecord,
    decode_record,
    encode_record,
)
from penstock.formats.octets import (
    SHORT_STRING_BYTES_MAX,
    Malformed,
    read_short_string,
    read_u8,
    read_u32,
    read_u64,
    write_short_string,
    write_u32,
    write_u64,
)
from penstock.formats.peer_limits import BadPeerMessage

PREVOTE: Final = 20
PREVOTED: Final = 21
VOTE: Final = 22
VOTED: Final = 23
VIEW: Final = 24
ROOT: Final = 25
ROOT_OK: Final = 26
RECORD: Final = 27
RECORD_OK: Final = 28
RELEASE: Final = 29
NACK: Final = 30

KIND_NAMES: Final = {
    PREVOTE: "PREVOTE",
    PREVOTED: "PREVOTED",
    VOTE: "VOTE",
    VOTED: "VOTED",
    VIEW: "VIEW",
    ROOT: "ROOT",
    ROOT_OK: "ROOT-OK",
    RECORD: "RECORD",
    RECORD_OK: "RECORD-OK",
    RELEASE: "RELEASE",
    NACK: "NACK",
}
# More than a record with the most members, the longest names and the longest addresses. A longer
# message is refused before it is read.
MESSAGE_BYTES_MAX: Final = 8192

_HEAD_BYTES: Final = CLUSTER_ID_BYTES + 4
_ROOT_BYTES: Final = 18
_ACTIVE: Final = 1
_WITH_RECORD: Final = (PREVOTE, PREVOTED, VOTE, VOTED, VIEW)


class ControlMessage:
    """One message, as it was received or is to be sent. Fields that its kind does not have keep
    their first values.
    """

    def __init__(
        self, kind: int, cluster_id: bytes, epoch: int, record: ClusterRecord | None = None
    ) -> None:
        self.kind: int = kind
        self.cluster_id: bytes = cluster_id
        self.epoch: int = epoch
        self.record: ClusterRecord | None = record
        # RECORD and ROOT: why the record was proposed.
        self.reason: str = ""
        # ROOT and its answer.
        self.sent_at: int = 0
        self.is_active: bool = False
        self.granted: int = 0
        self.committed_k: int = -1
        # RECORD_OK: the record that was accepted.
        self.accepted: tuple[int, int] = (0, 0)
        # RELEASE.
        self.heir: str = ""


def encode_message(message: ControlMessage) -> bytes:
    parts = [message.cluster_id, write_u32(message.epoch)]
    kind = message.kind
    if kind == ROOT:
        flags = _ACTIVE if message.is_active else 0
        parts.append(write_u64(message.sent_at))
        parts.append(bytes((flags, message.granted)))
        parts.append(write_u64(message.committed_k + 1))
        parts.append(_short(message.reason))
    elif kind == RECORD:
        parts.append(_short(message.reason))
    elif kind == ROOT_OK:
        parts.append(write_u64(message.sent_at))
    elif kind == RECORD_OK:
        parts.append(write_u32(message.accepted[0]) + write_u32(message.accepted[1]))
    elif kind == RELEASE:
        parts.append(write_short_string(message.heir))
    if message.record is not None:
        parts.append(encode_record(message.record))
    return b"".join(parts)


def _short(reason: str) -> bytes:
    """Its begin, if it is too long."""
    octets = reason.encode()[:SHORT_STRING_BYTES_MAX]
    return write_short_string(octets.decode(errors="ignore"))


def decode_message(kind: int, octets: bytes) -> ControlMessage:
    """Raises `BadPeerMessage`."""
    if kind not in KIND_NAMES:
        raise BadPeerMessage(f"{kind} is not a valid kind of control message")
    name = KIND_NAMES[kind]
    if len(octets) > MESSAGE_BYTES_MAX:
        raise BadPeerMessage(
            f"{name} has {len(octets)} octets; the most allowed is {MESSAGE_BYTES_MAX}"
        )
    if len(octets) < _HEAD_BYTES:
        raise BadPeerMessage(f"{name} is cut short after {len(octets)} octets")
    message = ControlMessage(kind, octets[:CLUSTER_ID_BYTES], read_u32(octets, CLUSTER_ID_BYTES))
    if message.epoch > EPOCH_MAX:
        raise BadPeerMessage(f"{name} has epoch {message.epoch}; the highest is {EPOCH_MAX}")
    try:
        _read_rest(message, octets)
    except Malformed as error:
        raise BadPeerMessage(f"{name} is not valid: {error}") from error
    record = message.record
    if record is not None:
        if record.cluster_id != message.cluster_id:
            raise BadPeerMessage(f"{name} has a record of another cluster than its own")
        is_proposal = kind == RECORD
        if record.epoch > message.epoch or (is_proposal and record.epoch < message.epoch):
            raise BadPeerMessage(
                f"{name} of epoch {message.epoch} has a record of epoch {record.epoch}"
            )
    return message


def _read_rest(message: ControlMessage, octets: bytes) -> None:
    kind = message.kind
    at = _HEAD_BYTES
    if kind in _WITH_RECORD:
        message.record = decode_record(octets, at)
        return
    if kind == RECORD:
        _read_proposed(message, octets, at)
        return
    if kind == ROOT:
        _read_root(message, octets, at)
        return
    if kind == ROOT_OK:
        message.sent_at = read_u64(octets, at)
        at += 8
    elif kind == RECORD_OK:
        message.accepted = (read_u32(octets, at), read_u32(octets, at + 4))
        at += 8
    elif kind == RELEASE:
        message.heir = read_short_string(octets, at)
        at += 1 + octets[at]
        reason = check_name(message.heir)
        if reason:
            raise BadPeerMessage(reason)
    if at != len(octets):
        raise BadPeerMessage(f"{KIND_NAMES[kind]} goes on behind its end")


def _read_root(message: ControlMessage, octets: bytes, at: int) -> None:
    message.sent_at = read_u64(octets, at)
    flags = read_u8(octets, at + 8)
    if flags > _ACTIVE:
        raise BadPeerMessage(f"{flags} is not a valid set of flags of ROOT")
    message.is_active = flags == _ACTIVE
    message.granted = read_u8(octets, at + 9)
    message.committed_k = read_u64(octets, at + 10) - 1
    _read_proposed(message, octets, at + _ROOT_BYTES)


def _read_proposed(message: ControlMessage, octets: bytes, at: int) -> None:
    message.reason = read_short_string(octets, at)
    if not message.reason.isprintable():
        # It is for the log and for operators.
        raise BadPeerMessage("the reason of a record is not printable")
    message.record = decode_record(octets, at + 1 + octets[at])
