"""A note of how far a store is known to be durable, beside the files that it describes.

A journal or a stream can record only that earlier data was durable. Nothing in a file shows that it
once was longer: a journal that was cut in half, or lost its only segment, looks like one that was
torn by a power loss. So a note is written when a new store is first durable, and at each clean
stop; recovery refuses files that end before it.

Invariant: a note contains only what a flush had covered before the note was written. Its part about
the journal never becomes wrong, because positions only grow; its part about streams is valid until
one is deleted, so the next start leaves that out. An old note is kept until a newer one is durable,
and a torn one is ignored.
"""

from typing import Final

from penstock.storage.number_table import encode_numbers, read_newest
from penstock.world.disk import Disk, DiskError, FlushListener

STEM: Final = "safe"
# Names in the note that belong to no stream: a position of the journal, and the number of the
# segment that it is in. Streams are named by their folders, which have a slash.
JOURNAL: Final = "journal"
SEGMENT: Final = "segment"


class SafePoint(FlushListener):
    """Held by the code that opened the store; by the disk while a note is being flushed."""

    def __init__(self, disk: Disk) -> None:
        """Reads the newest note, if there is any; changes nothing."""
        self._disk: Disk = disk
        self._names: list[str] = [n for n in disk.names() if n.startswith(STEM + "-")]
        self.numbers: dict[str, int] = read_newest(disk, STEM, self._names).numbers
        self._generation: int = 0
        if self._names:
            self._generation = int(self._names[-1].removeprefix(STEM + "-").removesuffix(".tab"))
        # Whether the note that was written last is durable.
        self.is_safe: bool = False
        self.failure: str = ""

    def position(self) -> int:
        """The durable position of the journal; 0 when nothing is known."""
        return self.numbers.get(JOURNAL, 0)

    def segment(self) -> int:
        """The number of the segment that the position is in."""
        return self.numbers.get(SEGMENT, 0)

    def ends(self) -> dict[str, int]:
        """The end offset of each stream, by its folder."""
        return {name: number for name, number in self.numbers.items() if "/" in name}

    def note(self, numbers: dict[str, int]) -> None:
        """Write a new note and ask for its flush. Raises a `DiskError`; then the previous note
        stays valid, and it may be tried again.
        """
        self.is_safe = False
        name = f"{STEM}-{self._generation + 1:010d}.tab"
        file = self._disk.open(name)
        if file.size():
            # The file of a note for which there was no room.
            file.truncate(0)
        file.append(encode_numbers(numbers))
        self.numbers = numbers
        self._generation += 1
        self._names.append(name)
        self._disk.flush([file], self._generation, self)

    def flushed(self, token: int, now: int) -> None:
        if token != self._generation:
            return
        self.is_safe = True
        older = self._names[:-1]
        del self._names[:-1]
        try:
            for name in older:
                self._disk.remove(name)
        except DiskError as error:
            self.failure = str(error)

    def flush_failed(self, reason: str, now: int) -> None:
        self.failure = reason
