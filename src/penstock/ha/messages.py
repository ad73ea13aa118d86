"""The messages of replication: encoded and decoded here, sent over a `BackupLine`.

    JOIN    epoch(4) | nonce(8) | flags(1) | syn epoch(4) | syn k(8) | sets of ids
    RESUME  epoch(4) | nonce(8) | k(8)
    SYNC    epoch(4) | nonce(8) | flags(1) | k0(8) | sets of ids, or octets of the values
    PIECE   epoch(4) | message records
    OP      epoch(4) | k(8) | committed(8) | checksum(4) | operation
    ACK     epoch(4) | acknowledged(8) | octets of pieces(8)

JOIN and SYNC come in several messages, of which the last has the flag LAST. Those of a SYNC that
have the flag VALUES follow those that carry ids. `committed` and `acknowledged` are one more than the
k that they mean, so that 0 says none. The checksum is the CRC-32 of the operation.
"""

from struct import Struct
from typing import Final
from zlib import crc32

from penstock.formats.octets import read_u8, read_u32, read_u64
from penstock.formats.peer_limits import BadPeerMessage

JOIN: Final = 1
RESUME: Final = 2
SYNC: Final = 3
PIECE: Final = 4
OP: Final = 5
ACK: Final = 6

LAST: Final = 1
VALUES: Final = 2

# k and the octets of pieces: what a signed number of eight octets can hold.
_COUNT_MAX: Final = (1 << 63) - 1

_JOIN: Final = Struct(">IQBIQ")
_RESUME: Final = Struct(">IQQ")
_SYNC: Final = Struct(">IQBQ")
_EPOCH: Final = Struct(">I")
_OP: Final = Struct(">IQQI")
_ACK: Final = Struct(">IQQ")

JOIN_HEAD_SIZE: Final = 25
RESUME_SIZE: Final = 20
SYNC_HEAD_SIZE: Final = 21
PIECE_HEAD_SIZE: Final = 4
OP_HEAD_SIZE: Final = 24
ACK_SIZE: Final = 20


class JoinHead:
    """The fields of a JOIN; the sets of ids are behind `JOIN_HEAD_SIZE`."""

    def __init__(self, epoch: int, nonce: int, is_last: bool, syn_epoch: int, syn_k: int) -> None:
        self.epoch: int = epoch
        self.nonce: int = nonce
        self.is_last: bool = is_last
        self.syn_epoch: int = syn_epoch
        self.syn_k: int = syn_k


class Resume:
    """The operations behind k follow."""

    def __init__(self, epoch: int, nonce: int, k: int) -> None:
        self.epoch: int = epoch
        self.nonce: int = nonce
        self.k: int = k


class SyncHead:
    """The fields of a SYNC; its content is behind `SYNC_HEAD_SIZE`."""

    def __init__(self, epoch: int, nonce: int, is_last: bool, has_values: bool, k: int) -> None:
        self.epoch: int = epoch
        self.nonce: int = nonce
        self.is_last: bool = is_last
        self.has_values: bool = has_values
        self.k: int = k


class OperationHead:
    """The fields of an OP; the operation is behind `OP_HEAD_SIZE`. -1 is no k."""

    def __init__(self, epoch: int, k: int, committed: int, checksum: int) -> None:
        self.epoch: int = epoch
        self.k: int = k
        self.committed: int = committed
        # Of the operation.
        self.checksum: int = checksum


class Acknowledgement:
    """The fields of an ACK. -1 is no k."""

    def __init__(self, epoch: int, k: int, piece_bytes: int) -> None:
        self.epoch: int = epoch
        self.k: int = k
        self.piece_bytes: int = piece_bytes


def encode_join(
    epoch: int, nonce: int, syn_epoch: int, syn_k: int, parts: list[bytes]
) -> list[bytes]:
    """One message for each part of the sets."""
    messages: list[bytes] = []
    for number, part in enumerate(parts):
        flags = LAST if number == len(parts) - 1 else 0
        messages.append(_JOIN.pack(epoch, nonce, flags, syn_epoch, syn_k) + part)
    return messages


def decode_join(data: bytes) -> JoinHead:
    _need(data, JOIN_HEAD_SIZE, "JOIN")
    flags = read_u8(data, 12)
    if flags & ~LAST:
        raise BadPeerMessage(f"{flags} are not valid flags of a JOIN")
    k = _count(read_u64(data, 17), "JOIN")
    return JoinHead(read_u32(data, 0), read_u64(data, 4), flags & LAST != 0, read_u32(data, 13), k)


def encode_resume(epoch: int, nonce: int, k: int) -> bytes:
    return _RESUME.pack(epoch, nonce, k)


def decode_resume(data: bytes) -> Resume:
    _exactly(data, RESUME_SIZE, "RESUME")
    return Resume(read_u32(data, 0), read_u64(data, 4), _count(read_u64(data, 12), "RESUME"))


def encode_sync(
    epoch: int, nonce: int, k: int, parts: list[bytes], values: bytes, values_max: int
) -> list[bytes]:
    """One message for each part of the sets, then at least one for the values."""
    messages = [_SYNC.pack(epoch, nonce, 0, k) + part for part in parts]
    at = 0
    while True:
        end = at + values_max
        flags = VALUES | LAST if end >= len(values) else VALUES
        messages.append(_SYNC.pack(epoch, nonce, flags, k) + values[at:end])
        if end >= len(values):
            return messages
        at = end


def decode_sync(data: bytes) -> SyncHead:
    _need(data, SYNC_HEAD_SIZE, "SYNC")
    flags = read_u8(data, 12)
    if flags & ~(LAST | VALUES):
        raise BadPeerMessage(f"{flags} are not valid flags of a SYNC")
    return SyncHead(
        read_u32(data, 0),
        read_u64(data, 4),
        flags & LAST != 0,
        flags & VALUES != 0,
        _count(read_u64(data, 13), "SYNC"),
    )


def encode_piece_head(epoch: int) -> bytes:
    return _EPOCH.pack(epoch)


def decode_piece_head(data: bytes) -> int:
    """The epoch; the records are behind `PIECE_HEAD_SIZE`."""
    _need(data, PIECE_HEAD_SIZE, "PIECE")
    return read_u32(data, 0)


def operation_checksum(pieces: list[bytes]) -> int:
    checksum = 0
    for piece in pieces:
        checksum = crc32(piece, checksum)
    return checksum


def encode_operation_head(epoch: int, k: int, committed: int, checksum: int) -> bytes:
    return _OP.pack(epoch, k, committed + 1, checksum)


def decode_operation_head(data: bytes) -> OperationHead:
    """Checks the operation behind it, too."""
    _need(data, OP_HEAD_SIZE, "OP")
    checksum = read_u32(data, 20)
    if crc32(memoryview(data)[OP_HEAD_SIZE:]) != checksum:
        raise BadPeerMessage("an operation does not have its checksum")
    return OperationHead(
        read_u32(data, 0),
        _count(read_u64(data, 4), "OP"),
        _count(read_u64(data, 12), "OP") - 1,
        checksum,
    )


def encode_ack(epoch: int, k: int, piece_bytes: int) -> bytes:
    return _ACK.pack(epoch, k + 1, piece_bytes)


def decode_ack(data: bytes) -> Acknowledgement:
    _exactly(data, ACK_SIZE, "ACK")
    return Acknowledgement(
        read_u32(data, 0),
        _count(read_u64(data, 4), "ACK") - 1,
        _count(read_u64(data, 12), "ACK"),
    )


def _need(data: bytes, size: int, what: str) -> None:
    if len(data) < size:
        raise BadPeerMessage(f"{what} is cut short: {len(data)} octets")


def _exactly(data: bytes, size: int, what: str) -> None:
    if len(data) != size:
        raise BadPeerMessage(f"{what} has {len(data)} octets instead of {size}")


def _count(value: int, what: str) -> int:
    if value > _COUNT_MAX:
        raise BadPeerMessage(f"{value} is not a valid number in {what}")
    return value
