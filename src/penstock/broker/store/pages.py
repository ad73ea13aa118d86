"""Where a queue's messages go that do not fit memory, and how they come back."""

from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Message, MessageDecoder
from penstock.broker.queues.queue_journal import MessagePages
from penstock.broker.store import records
from penstock.broker.store.repeats import RepeatReader, RepeatWriter
from penstock.broker.store.spool import SPOOLED, Spool
from penstock.broker.timers import WallClock
from penstock.storage.checked_reading import BLOCK_BYTES, CheckedOctets
from penstock.storage.journal import Journal
from penstock.storage.segment import offset_of

# A read that has used this much ends with its block, however few records it has: bodies may be
# large.
WORTH_BYTES: Final = BLOCK_BYTES // 2
# A read that uses little of each block ends when it has read this much.
PAGE_BYTES: Final = 4 * 1024 * 1024


class QueuePages(MessagePages):
    """The pages of one queue. Persistent messages of a durable queue are in the journal already, and
    so are all messages of a replicated one; others are spooled.
    """

    def __init__(
        self, journal: Journal, spool: Spool, decoder: MessageDecoder, wall: WallClock
    ) -> None:
        self._journal: Journal = journal
        self._spool: Spool = spool
        self._decoder: MessageDecoder = decoder
        self._wall: WallClock = wall
        # Of what is spooled.
        self._writer: RepeatWriter = RepeatWriter()
        # Of its queue in the journal; 0 when everything is spooled.
        self.number: int = 0
        # Whether the journal has those that are not persistent too.
        self.journals_all: bool = False

    def page_out(self, entries: list[QueueEntry]) -> list[int]:
        locations: list[int] = []
        for entry in entries:
            message = entry.message
            if self.number and (message.properties.persistent or self.journals_all):
                assert message.location >= 0, "written before it is paged out"
                locations.append(message.location)
            else:
                pieces: list[bytes] = []
                self._writer.append(pieces, entry, 0, self._wall.offset_ms)
                locations.append(self._spool.put(b"".join(pieces)))
        return locations

    def page_in(self, positions: list[int], locations: list[int]) -> list[QueueEntry]:
        entries: list[QueueEntry] = []
        window = b""
        start = 0
        octets_read = 0
        used = 0
        repeat: RepeatReader | None = None
        for index, location in enumerate(locations):
            at = location - start
            if repeat is not None and at >= 0:
                message = repeat.message_at(window, at)
                if message is not None:
                    if not location & SPOOLED:
                        message.location = location
                        message.is_journalled = True
                    used += repeat.size
                    entries.append(QueueEntry(message, positions[index]))
                    continue
            if not _holds_record(window, at):
                if used >= WORTH_BYTES or octets_read >= PAGE_BYTES:
                    # Only between blocks: the next call would read and check the rest of a begun
                    # block again.
                    break
                checked = self._around(location)
                window = checked.data
                octets_read += len(window)
                start = location - offset_of(location) + checked.start
                at = location - start
            used += records.size_at(window, at)
            record = records.MessageRecord(window, at)
            entry = self._entry(record, positions[index], location)
            if record.pair_count == 1 and entry.expires_at == 0:
                repeat = RepeatReader(window, at, record, entry.message)
            entries.append(entry)
        return entries

    def _around(self, location: int) -> CheckedOctets:
        """With the whole record of a location among them."""
        checked = self._checked(location, records.HEAD_SIZE)
        at = offset_of(location) - checked.start
        if _holds_record(checked.data, at):
            return checked
        # Only part of a large batch was read, and the record is larger still.
        return self._checked(location, records.size_at(checked.data, at))

    def _checked(self, location: int, size_min: int) -> CheckedOctets:
        """Octets around a location that are what was written. Raises a `DiskError` otherwise: a
        message must not be delivered as something else.
        """
        if location & SPOOLED:
            return self._spool.checked(location)
        return self._journal.checked(location, size_min)

    def _entry(self, record: records.MessageRecord, position: int, location: int) -> QueueEntry:
        message: Message = self._decoder.decode_addressed(
            record.address(), record.header(), record.body()
        )
        index = 0
        if not location & SPOOLED:
            message.location = location
            message.is_journalled = True
            if record.pair_count > 1:
                index = record.index_of(self.number, position)
        message.origin = record.origin()
        entry = QueueEntry(message, position)
        expires_at = record.expires_at(index)
        if expires_at:
            entry.expires_at = max(expires_at - self._wall.offset_ms, 1)
        return entry

    def forget(self, locations: list[int]) -> None:
        if self.number:
            locations = [location for location in locations if location & SPOOLED]
        self._spool.forget_all(locations)


def _holds_record(window: bytes, at: int) -> bool:
    """Whether a whole record begins at `at`."""
    return 0 <= at <= len(window) - records.HEAD_SIZE and at + records.size_at(window, at) <= len(
        window
    )
