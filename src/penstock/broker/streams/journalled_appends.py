"""Messages that a stream takes over through the journal, as one unit with what else a tick did.

A stream has files of its own, and a power loss may keep one file and lose another. So a message
that leaves a queue for a stream, or is published in a transaction, is written to the journal first,
in its tick's batch, as if the stream were a queue. Its offset is known and written with it. It is
appended to the stream only when that batch is durable, and dequeued from the journal only when the
append is durable. Other messages that come meanwhile wait behind it, so that order is kept. They
are not written twice: they are confirmed when they are durable in the stream.

Invariants
- a message is in the stream's files only after its batch of the journal was durable, so no file
  ever holds half of a tick that is lost;
- a message that the journal still has for the stream is in its files exactly if they reach beyond
  its offset. After a start those that they do not reach get new offsets, again in one batch, and
  until that is durable nothing is appended;
- a position in the journal stands for one message: offsets that a power loss took away may be used
  again, and then with a higher generation.
"""

from collections import deque
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Address, Message, Properties
from penstock.broker.queues.queue_journal import QueueJournal
from penstock.broker.queues.ready_list import ReadyList
from penstock.broker.sent import Sent
from penstock.broker.stream_store import StreamStore
from penstock.broker.streams.publishers import Publishers
from penstock.broker.streams.rows import StreamRows
from penstock.storage.flush_waiter import FlushWaiter

# A position in the journal: generation and offset. Nine years at a million messages a second, and
# 65,536 power losses while the journal keeps anything of them.
OFFSET_BITS: Final = 48
_OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1


def offset_of(position: int) -> int:
    """The offset in the stream that belongs to a position in the journal."""
    return position & _OFFSET_MASK


# Stands where rows wait.
_NO_MESSAGE: Final = Message(Address("", "", b""), Properties(False, 0, -1), b"", -1)


@mypyc_attr(allow_interpreted_subclasses=True)
class AppendListener:
    """The object that appends what is durable in the journal: the stream."""

    def may_append(self) -> None:
        """At the end of this tick."""
        raise NotImplementedError


class PendingAppend:
    """A message on its way. Held until it is appended; one that only waits behind others, until it
    is durable.
    """

    def __init__(
        self,
        message: Message,
        sent: Sent | None,
        offset: int,
        number: int,
        rows: StreamRows | None = None,
    ) -> None:
        self.message: Message = message
        # Rows of a sink that wait instead of a message; the message then means nothing.
        self.rows: StreamRows | None = rows
        self.count: int = 1 if rows is None else rows.count
        self.sent: Sent | None = sent
        self.offset: int = offset
        # Of those that the journal has; 0 for one that only waits.
        self.number: int = number


class JournalledAppends(FlushWaiter):
    """Held by one stream, and by the store while it waits for a flush."""

    def __init__(self, store: StreamStore) -> None:
        self._store: StreamStore = store
        self._journal: QueueJournal | None = None
        self._listener: AppendListener | None = None
        # What the journal has for the stream, until it is durable in the stream's files.
        self.listed: ReadyList = ReadyList()
        # What is not appended yet, and how many that are.
        self._pending: deque[PendingAppend] = deque()
        self.count: int = 0
        # Messages whose publishers wait until the stream is durable beyond an offset.
        self._unconfirmed: deque[PendingAppend] = deque()
        # The last number that was assigned, and the last that is durable in the journal.
        self._number: int = 0
        self._safe_number: int = 0
        self._generation: int = 0
        self._highest_offset: int = -1
        # Last sequences of publishers among what is not appended yet.
        self._sequences: dict[str, int] = {}

    # After a start.

    def restored(self, entries: list[QueueEntry], highest_position: int) -> None:
        """The journal has these for the stream, in order."""
        self._generation = highest_position >> OFFSET_BITS
        self._highest_offset = offset_of(highest_position)
        for entry in entries:
            self.listed.append(entry)

    def begin(
        self, journal: QueueJournal | None, listener: AppendListener, end_offset: int
    ) -> list[Message]:
        """The stream is open and ends here; returns what it has lost, to be appended again in
        this order.
        """
        self._journal = journal
        self._listener = listener
        if end_offset > self._highest_offset or journal is None:
            return []
        self._generation += 1
        assert self._generation < 1 << 64 - OFFSET_BITS, "positions have 64 bits"
        lost: list[Message] = []
        for entry in self.listed.clear():
            if offset_of(entry.position) < end_offset:
                self.listed.append(entry)
            else:
                journal.dequeued(entry)
                message = _copy(entry.message)
                message.through_journal = True
                lost.append(message)
        return lost

    # In.

    def wants(self, message: Message) -> bool:
        """Whether a message must come through the journal, or wait behind one that does."""
        return (message.through_journal or self.count > 0) and self._journal is not None

    def check_and_note(self, sent: Sent, appended: Publishers) -> bool:
        """As `Publishers.check_and_note`, which must not know of what is not appended yet."""
        known = self._sequences.get(sent.publisher, -1)
        if sent.sequence <= max(known, appended.sequences.get(sent.publisher, -1)):
            return True
        self._sequences[sent.publisher] = sent.sequence
        return False

    def add(self, message: Message, sent: Sent | None, offset: int) -> None:
        number = 0
        if message.through_journal:
            self._write_down(message, offset)
            self._number += 1
            number = self._number
            self._store.wrote(self, [])
        pending = PendingAppend(message, sent, offset, number)
        self._pending.append(pending)
        self.count += 1
        if not number:
            message.hold()
            self._unconfirmed.append(pending)

    def _write_down(self, message: Message, offset: int) -> None:
        assert self._journal is not None, "only with a journal does anything come through it"
        # A transient message may be shared with queues that do not write it to the journal.
        written = message if message.properties.persistent else _copy(message)
        entry = QueueEntry(written, self._generation << OFFSET_BITS | offset)
        self.listed.append(entry)
        self._journal.enqueued(entry)

    def add_rows(self, rows: StreamRows, offset: int) -> None:
        """The rows wait behind pending messages; their publisher waits for the stream."""
        self._pending.append(PendingAppend(_NO_MESSAGE, None, offset, 0, rows))
        self.count += rows.count

    def confirm_behind(self, message: Message) -> None:
        """A duplicate of a message that may be pending: it is confirmed no earlier than that
        one.
        """
        if not self.count:
            return
        message.hold()
        last = self._pending[-1]
        self._unconfirmed.append(PendingAppend(message, None, last.offset + last.count - 1, 0))

    def mark(self) -> int:
        return self._number

    def became_durable(self, mark: int, now: int) -> None:
        """Everything that was added by then is durable in the journal."""
        self._safe_number = mark
        if self._listener is not None and self.count:
            self._listener.may_append()

    # Out.

    def take(self) -> PendingAppend | None:
        """The next one that may be appended now."""
        if not self.count or self._pending[0].number > self._safe_number:
            return None
        pending = self._pending.popleft()
        self.count -= pending.count
        if not self.count:
            self._sequences = {}
        return pending

    def appended(self, durable_offset: int) -> None:
        """Everything before this offset is durable in the stream's files."""
        while self._unconfirmed and self._unconfirmed[0].offset < durable_offset:
            self._unconfirmed.popleft().message.release()
        if self._journal is None:
            return
        entry = self.listed.first()
        while entry is not None and offset_of(entry.position) < durable_offset:
            self._journal.dequeued(self.listed.pop_first())
            entry = self.listed.first()

    def entries(self) -> list[QueueEntry]:
        """What the journal has for the stream; for whoever compares the two."""
        found: list[QueueEntry] = []
        for entry in self.listed.clear():
            self.listed.append(entry)
            found.append(entry)
        return found

    def waiting(self) -> list[QueueEntry]:
        """What is not appended yet, with its offsets; for whoever looks into a stream."""
        found: list[QueueEntry] = []
        for pending in self._pending:
            messages = [pending.message] if pending.rows is None else pending.rows.messages()
            for place, message in enumerate(messages):
                found.append(QueueEntry(message, pending.offset + place))
        return found

    def delete(self) -> None:
        """The stream is deleted, and with it what was on its way."""
        self._listener = None
        self._pending.clear()
        self.count = 0
        while self._unconfirmed:
            self._unconfirmed.popleft().message.release()
        gone = self.listed.clear()
        if self._journal is not None and gone:
            self._journal.dequeued_many(gone)


def _copy(message: Message) -> Message:
    return Message(message.address, message.properties, message.body, message.origin)
