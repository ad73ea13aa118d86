"""The file of promises: what it holds, and how it is read after a crash.

    head:  "penstock promises" (17), version u8, store id (16), crc u32 of all that
    entry: "PM", crc u32, size u16, offset of this entry u32, durable u32, kind u8, payload
           the crc covers everything behind it; `size` is the payload's
    kinds: 0 promise: epoch u32, voted for (short string), stores, record    1 note: no payload
    stores: count u8, and each: name (short string), store id (16)

Every promise is complete in itself; the last one counts. `durable` is how much of the file was known
to be durable when the entry was written, and a note says nothing else. That distinguishes a torn tail,
which is cut off, from damage, which is refused: an unreadable entry below an offset that a later entry
calls durable was durable.
"""

import zlib
from struct import Struct
from typing import Final

from penstock.cluster.errors import PromisesDamaged
from penstock.cluster.member import STORE_ID_BYTES
from penstock.cluster.record import ClusterRecord, decode_record, encode_record
from penstock.formats.octets import (
    Malformed,
    read_bytes,
    read_short_string,
    read_u8,
    read_u32,
    write_short_string,
    write_u32,
)
from penstock.formats.peer_limits import BadPeerMessage
from penstock.storage.errors import NotAStore, WrongVersion
from penstock.world.disk import Disk

STEM: Final = "cluster/promises-"
FORMAT_VERSION: Final = 1

_MAGIC: Final = b"penstock promises"
_HEAD_BYTES: Final = len(_MAGIC) + 1 + STORE_ID_BYTES + 4
_MARK: Final = b"PM"
_CHECKED: Final = Struct(">HIIB")
_ENTRY_BYTES: Final = 17
_PROMISE: Final = 0
_NOTE: Final = 1


def file_name(generation: int) -> str:
    return f"{STEM}{generation:010d}"


def generations(disk: Disk) -> list[int]:
    """Oldest first."""
    found: list[int] = []
    for name in disk.names():
        if name.startswith(STEM):
            digits = name.removeprefix(STEM)
            if not (digits.isascii() and digits.isdigit()):
                raise NotAStore(name, "is not a file of promises")
            found.append(int(digits))
    return sorted(found)


def encode_head(store_id: bytes) -> bytes:
    head = _MAGIC + bytes((FORMAT_VERSION,)) + store_id
    return head + zlib.crc32(head).to_bytes(4, "big")


def encode_promise(
    epoch: int,
    voted_for: str,
    stores: dict[str, bytes],
    record: ClusterRecord,
    offset: int,
    durable: int,
) -> bytes:
    parts = [write_u32(epoch), write_short_string(voted_for), bytes((len(stores),))]
    parts += [write_short_string(name) + store_id for name, store_id in stores.items()]
    parts.append(encode_record(record))
    return _encode_entry(_PROMISE, b"".join(parts), offset, durable)


def encode_note(offset: int, durable: int) -> bytes:
    return _encode_entry(_NOTE, b"", offset, durable)


def _encode_entry(kind: int, payload: bytes, offset: int, durable: int) -> bytes:
    rest = _CHECKED.pack(len(payload), offset, durable, kind) + payload
    return _MARK + zlib.crc32(rest).to_bytes(4, "big") + rest


class ReadPromises:
    """What one file says. Raises `StorageError` for one that cannot be used."""

    def __init__(self, name: str, octets: bytes) -> None:
        self.store_id: bytes = b""
        self.epoch: int = 0
        self.voted_for: str = ""
        self.stores: dict[str, bytes] = {}
        self.record: ClusterRecord | None = None
        # Up to where entries are whole, and the most that one of them calls durable.
        self.end: int = 0
        self._durable: int = 0
        self._name: str = name
        if not self._read_head(octets):
            return
        at = _HEAD_BYTES
        while True:
            size = self._read_entry(octets, at)
            if not size:
                break
            at += size
        self.end = at
        self._refuse_damage(octets)

    def _read_head(self, octets: bytes) -> bool:
        head = octets[:_HEAD_BYTES]
        if len(head) < _HEAD_BYTES or zlib.crc32(head[:-4]).to_bytes(4, "big") != head[-4:]:
            return False
        if not head.startswith(_MAGIC):
            raise NotAStore(self._name, "is not a file of promises")
        version = head[len(_MAGIC)]
        if version != FORMAT_VERSION:
            raise WrongVersion(self._name, version, FORMAT_VERSION)
        self.store_id = head[len(_MAGIC) + 1 : -4]
        return True

    def _read_entry(self, octets: bytes, at: int) -> int:
        """The octets that the entry has; 0 if there is no whole one."""
        size = whole_entry_size(octets, at)
        if not size:
            return 0
        self._durable = max(self._durable, read_u32(octets, at + 12))
        if octets[at + 16] == _PROMISE:
            payload = octets[at + _ENTRY_BYTES : at + size]
            try:
                self._read_promise(payload)
            except (Malformed, BadPeerMessage) as error:
                raise PromisesDamaged(self._name, at, str(error)) from error
        return size

    def _read_promise(self, payload: bytes) -> None:
        self.epoch = read_u32(payload, 0)
        self.voted_for = read_short_string(payload, 4)
        at = 5 + payload[4]
        self.stores = {}
        count = read_u8(payload, at)
        at += 1
        for _ in range(count):
            name = read_short_string(payload, at)
            at += 1 + payload[at]
            self.stores[name] = read_bytes(payload, at, STORE_ID_BYTES)
            at += STORE_ID_BYTES
        self.record = decode_record(payload, at)

    def _refuse_damage(self, octets: bytes) -> None:
        """Look behind an unreadable entry for one that calls it durable."""
        for at in range(self.end, len(octets) - _ENTRY_BYTES + 1):
            if whole_entry_size(octets, at) and read_u32(octets, at + 12) > self.end:
                raise PromisesDamaged(
                    self._name, self.end, "an entry that was durable is not whole"
                )


def whole_entry_size(octets: bytes, at: int) -> int:
    """0 unless a whole entry that was written for this offset begins there."""
    if octets[at : at + 2] != _MARK or at + _ENTRY_BYTES > len(octets):
        return 0
    size, offset, _, _ = _CHECKED.unpack_from(octets, at + 6)
    end = at + _ENTRY_BYTES + size
    if offset != at or end > len(octets):
        return 0
    if zlib.crc32(octets[at + 6 : end]).to_bytes(4, "big") != octets[at + 2 : at + 6]:
        return 0
    return int(_ENTRY_BYTES + size)
