"""Entries that were enqueued in this tick, and their records for the journal.

A message that reaches several queues is one record with a pair of queue number and position for each
of them, so the entries of one message stand together.
"""

from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Message
from penstock.broker.store import records
from penstock.broker.store.repeats import RepeatWriter

NOT_WRITTEN: Final = -1


class EncodedEntries:
    """What encoding the entries of a tick has appended to the batch."""

    def __init__(self, size: int) -> None:
        # Of the batch up to here.
        self.size: int = size
        # Pairs of queue number and position, and their bodies, each counted once per pair.
        self.pair_count: int = 0
        self.body_bytes: int = 0
        # The location of these is an offset in the batch until the batch has a place. If it gets
        # none, the disk has failed and nothing is written any more.
        self.messages: list[Message] = []


class EnqueuedEntries:
    """Held by the message store; empty again after every tick."""

    def __init__(self) -> None:
        self._entries: list[QueueEntry] = []
        self._numbers: list[int] = []
        # Whether entries of one message stand apart.
        self._is_mixed: bool = False
        self._writer: RepeatWriter = RepeatWriter()

    def is_empty(self) -> bool:
        return not self._entries

    def add(self, number: int, entry: QueueEntry) -> None:
        message = entry.message
        if not message.is_journalled:
            message.is_journalled = True
        else:
            assert message.location == NOT_WRITTEN, "a message is enqueued everywhere in one tick"
            if not self._entries or self._entries[-1].message is not message:
                self._is_mixed = True
        self._entries.append(entry)
        self._numbers.append(number)

    def encode(self, pieces: list[bytes], size: int, wall_offset: int) -> EncodedEntries:
        """Append message records to a batch that has `size` bytes so far."""
        if self._is_mixed:
            self._bring_together()
        entries = self._entries
        numbers = self._numbers
        self._entries = []
        self._numbers = []
        encoded = EncodedEntries(size)
        written = encoded.messages
        count = 0
        body_bytes = 0
        index = 0
        total = len(entries)
        while index < total:
            entry = entries[index]
            message = entry.message
            following = index + 1
            if following == total or entries[following].message is not message:
                if not entry.is_gone:
                    written.append(message)
                    message.location = size
                    size += self._writer.append(pieces, entry, numbers[index], wall_offset)
                    count += 1
                    body_bytes += len(message.body)
                index = following
                continue
            group: list[QueueEntry] = []
            group_numbers: list[int] = []
            while index < total and entries[index].message is message:
                if not entries[index].is_gone:
                    group.append(entries[index])
                    group_numbers.append(numbers[index])
                index += 1
            if not group:
                continue
            written.append(message)
            message.location = size
            size += records.append_message(
                pieces,
                message,
                message.properties.encoded(),
                message.address.octets(),
                group_numbers,
                group,
                wall_offset,
            )
            count += len(group)
            body_bytes += len(group) * len(message.body)
        encoded.size = size
        encoded.pair_count = count
        encoded.body_bytes = body_bytes
        return encoded

    def _bring_together(self) -> None:
        """Reorder when a message was enqueued, then another one, and then the first in one more
        queue.
        """
        places: dict[Message, list[int]] = {}
        for index, entry in enumerate(self._entries):
            places.setdefault(entry.message, []).append(index)
        entries: list[QueueEntry] = []
        numbers: list[int] = []
        for indices in places.values():
            for index in indices:
                entries.append(self._entries[index])
                numbers.append(self._numbers[index])
        self._entries = entries
        self._numbers = numbers
        self._is_mixed = False
