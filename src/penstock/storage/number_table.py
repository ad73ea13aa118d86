"""A small table of names and numbers on disk: cursors, and the last sequences of publishers.

A table file begins with everything that was known when it was made; changes are appended, the last
one of a name counts. When the changes are larger than the table itself, a new generation of the
file is begun and the old one removed once the new one is durable. A torn tail is cut.

    record: crc u32 | kind u8 | size of name u16 | number i64 | name          little-endian
    kinds: 0 is put, 1 removed, 2 ends what the file begins with and says how many there are
"""

import zlib
from struct import Struct
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.world.disk import AppendFile, Disk

_RECORD: Final = Struct("<IBHq")
_CHECKED: Final = Struct("<BHq")
_PUT: Final = 0
_REMOVED: Final = 1
_BEGUN: Final = 2
_SIZE: Final = 15
# A file below this size is never worth a new generation.
COMPACT_BYTES_MIN: Final = 64 * 1024


def encode_numbers(numbers: dict[str, int]) -> bytes:
    """All records, with the one that ends them."""
    records = [_encode(_PUT, name, number) for name, number in numbers.items()]
    records.append(_encode(_BEGUN, "", len(numbers)))
    return b"".join(records)


def _encode(kind: int, name: str, number: int) -> bytes:
    return encode_record(kind, name.encode(errors="surrogateescape"), number)


def encode_record(kind: int, name: bytes, number: int) -> bytes:
    """One record, also of kinds that only other files have."""
    rest = _CHECKED.pack(kind, len(name), number) + name
    return zlib.crc32(rest).to_bytes(4, "little") + rest


class ReadNumbers:
    """What a table file says."""

    def __init__(self, octets: bytes) -> None:
        self.numbers: dict[str, int] = {}
        # Whether the initial table of the file is complete.
        self.is_begun: bool = False
        # Up to where the records are whole.
        self.end: int = 0
        at = 0
        while at + _SIZE <= len(octets):
            crc, kind, size, number = _RECORD.unpack_from(octets, at)
            end = at + _SIZE + size
            if end > len(octets) or zlib.crc32(octets[at + 4 : end]) != crc:
                break
            name = octets[at + _SIZE : end].decode(errors="surrogateescape")
            if kind == _PUT:
                # Removed and added again: the order of the table is that of the last change.
                self.numbers.pop(name, None)
                self.numbers[name] = number
            elif kind == _REMOVED:
                self.numbers.pop(name, None)
            elif number == len(self.numbers):
                self.is_begun = True
            at = end
            self.end = at


def read_newest(disk: Disk, stem: str, names: list[str]) -> ReadNumbers:
    """Read a table that is not open; changes nothing."""
    for name in sorted([name for name in names if name.startswith(stem + "-")], reverse=True):
        file = disk.open(name)
        found = ReadNumbers(file.read(0, file.size()))
        file.close()
        if found.is_begun:
            return found
    return ReadNumbers(b"")


@mypyc_attr(allow_interpreted_subclasses=True)
class NamedNumbers:
    """A table in memory. Whoever keeps it somewhere overrides `put` and `remove`."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def put(self, name: str, number: int) -> None:
        self.numbers[name] = number

    def remove(self, name: str) -> bool:
        """False when it is not there."""
        return self.numbers.pop(name, None) is not None


class NumberTable(NamedNumbers):
    """Held by the owner of the names."""

    def __init__(self, disk: Disk, stem: str, names: list[str]) -> None:
        """`stem` is the file's name without generation; `names` are the disk's files there."""
        super().__init__()
        self._disk: Disk = disk
        self._stem: str = stem
        self.generation: int = 0
        self._file: AppendFile | None = None
        self._changes: list[bytes] = []
        self._live_bytes: int = 0
        # Earlier generations, until the present one is durable.
        self._stale: list[str] = []
        self._recover(sorted([name for name in names if name.startswith(stem + "-")]))

    def _name(self, generation: int) -> str:
        return f"{self._stem}-{generation:010d}.tab"

    def _recover(self, names: list[str]) -> None:
        for name in reversed(names):
            if self._file is not None:
                # The present one may be only in the page cache.
                self._stale.append(name)
                continue
            file = self._disk.open(name)
            found = ReadNumbers(file.read(0, file.size()))
            if not found.is_begun:
                file.close()
                self._disk.remove(name)
                continue
            file.truncate(found.end)
            self.numbers = found.numbers
            self.generation = int(name.removeprefix(self._stem + "-").removesuffix(".tab"))
            self._file = file
        self._weigh()

    def _weigh(self) -> None:
        self._live_bytes = sum([_SIZE + len(name) for name in self.numbers])

    def put(self, name: str, number: int) -> None:
        """Takes effect on disk with the next `write`."""
        if name not in self.numbers:
            self._live_bytes += _SIZE + len(name)
        self.numbers[name] = number
        self._changes.append(_encode(_PUT, name, number))

    def remove(self, name: str) -> bool:
        if self.numbers.pop(name, None) is None:
            return False
        self._live_bytes -= _SIZE + len(name)
        self._changes.append(_encode(_REMOVED, name, 0))
        return True

    def file(self) -> list[AppendFile]:
        """The file that a flush must cover to make all writes durable; empty without any."""
        return [] if self._file is None else [self._file]

    def write(self) -> bool:
        """Append the changes; False when there are none."""
        if not self._changes:
            return False
        changes = b"".join(self._changes)
        self._changes = []
        if self._file is None or self._is_overgrown(self._file.size()):
            if self._file is not None:
                self._stale.append(self._name(self.generation))
            self.generation += 1
            self._file = self._disk.open(self._name(self.generation))
            changes = encode_numbers(self.numbers)
        self._file.append(changes)
        return True

    def _is_overgrown(self, size: int) -> bool:
        # One change of generation at a time.
        return not self._stale and size > COMPACT_BYTES_MIN and size > 4 * self._live_bytes

    def became_durable(self, generation: int) -> None:
        """Everything that was written in this generation of the table is durable."""
        if generation == self.generation:
            for name in self._stale:
                self._disk.remove(name)
            self._stale = []

    def delete(self) -> None:
        """Remove every file of the table."""
        if self._file is not None:
            self._stale.append(self._name(self.generation))
            self._file = None
        self.became_durable(self.generation)
        self.numbers = {}
