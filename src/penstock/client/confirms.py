"""Publishes that wait for their confirm.

The broker counts publishes on a confirming channel from 1 and answers with those numbers, one by
one or many at once (`multiple`). The publisher leaves a note with each publish (a future, a time,
the message itself) and gets it back when the broker answers; after a loss the remaining notes are
the publishes in doubt.

Invariants: tags are handed out without gaps; a tag is settled at most once; entries are ordered
by tag, so the in-doubt list is in publish order.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

Note = TypeVar("Note")

# basic.ack with delivery tag 0 and multiple means "everything so far".
ALL_TAGS: Final = 0


class Entry(Generic[Note]):
    """One publish, or a batch of them that shares a note: tags `first_tag` to `last_tag`."""

    __slots__ = ("early", "first_tag", "last_tag", "note")

    def __init__(self, first_tag: int, last_tag: int, note: Note) -> None:
        self.first_tag: int = first_tag
        self.last_tag: int = last_tag
        self.note: Note = note
        # Tags of a batch that were settled before the ones in front of them.
        self.early: set[int] | None = None

    def unsettled(self, last_tag: int) -> Sequence[int]:
        """Open tags up to and including `last_tag`."""
        tags = range(self.first_tag, last_tag + 1)
        if not self.early:
            return tags
        return [tag for tag in tags if tag not in self.early]


@dataclass(slots=True)  # not frozen: one is made for every confirm, and freezing costs a third
class Settled(Generic[Note]):
    """What one answer of the broker settled of one entry, or what a loss left open of it."""

    note: Note
    tags: Sequence[int]

    @property
    def count(self) -> int:
        return len(self.tags)


def _first_tag(entry: Entry[Note]) -> int:
    return entry.first_tag


class OutstandingPublishes(Generic[Note]):
    """Held by one confirming channel; nobody else hands out its tags."""

    def __init__(self) -> None:
        self._entries: deque[Entry[Note]] = deque()
        self._next_tag: int = 1
        self._count: int = 0

    def __len__(self) -> int:
        return self._count

    @property
    def next_tag(self) -> int:
        return self._next_tag

    def published(self, note: Note, count: int = 1) -> int:
        """The tag of the first of `count` messages just written."""
        assert count > 0
        first = self._next_tag
        self._next_tag += count
        self._count += count
        self._entries.append(Entry(first, self._next_tag - 1, note))
        return first

    def settle(self, tag: int, multiple: bool) -> list[Settled[Note]]:
        """Notes this answer settles, oldest first. A tag nobody published settles nothing."""
        if multiple:
            return self._settle_through(self._next_tag - 1 if tag == ALL_TAGS else tag)
        entries = self._entries
        if not entries or tag < entries[0].first_tag or tag >= self._next_tag:
            return []
        index = 0
        if tag > entries[0].last_tag:
            index = bisect_right(entries, tag, key=_first_tag) - 1
        entry = entries[index]
        if tag > entry.last_tag or (entry.early is not None and tag in entry.early):
            return []
        self._settle_within(index, entry, tag)
        self._count -= 1
        return [Settled(entry.note, (tag,))]

    def in_doubt(self) -> list[Settled[Note]]:
        """Everything still open, in publish order."""
        return [Settled(entry.note, entry.unsettled(entry.last_tag)) for entry in self._entries]

    def _settle_through(self, tag: int) -> list[Settled[Note]]:
        settled: list[Settled[Note]] = []
        entries = self._entries
        while entries and entries[0].first_tag <= tag:
            entry = entries[0]
            tags = entry.unsettled(min(tag, entry.last_tag))
            if entry.last_tag <= tag:
                entries.popleft()
            else:
                entry.first_tag = tag + 1
                if entry.early is not None:
                    entry.early = {early for early in entry.early if early > tag}
                    self._shrink(0, entry)
            self._count -= len(tags)
            # Never empty: both ends of an entry are open, see `_shrink`.
            settled.append(Settled(entry.note, tags))
        return settled

    def _settle_within(self, index: int, entry: Entry[Note], tag: int) -> None:
        if entry.first_tag == entry.last_tag:
            del self._entries[index]
        elif tag == entry.first_tag:
            entry.first_tag += 1
        elif tag == entry.last_tag:
            entry.last_tag -= 1
        else:
            entry.early = entry.early or set()
            entry.early.add(tag)
        if entry.early:
            self._shrink(index, entry)

    def _shrink(self, index: int, entry: Entry[Note]) -> None:
        """Keep both ends of a batch unsettled, so that an entry with nothing left is dropped."""
        early = entry.early
        assert early is not None
        while entry.first_tag in early:
            early.remove(entry.first_tag)
            entry.first_tag += 1
        while entry.last_tag in early:
            early.remove(entry.last_tag)
            entry.last_tag -= 1
        if entry.first_tag > entry.last_tag:
            del self._entries[index]
