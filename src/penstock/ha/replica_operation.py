"""An operation of the root, taken apart and checked before any of it is applied.

It comes from another server. That is a member, so it is not hostile, but it may be of another release
or have a defect: what cannot be read must be refused before it is in the journal, where every later
start would stumble over it.
"""

from typing import Final

from penstock.broker.errors import Refusal
from penstock.broker.store import records
from penstock.broker.store.appended_blocks import append_at
from penstock.broker.store.definition_records import Change, decode_change, decode_snapshot
from penstock.broker.topology import NoteReturns
from penstock.formats.stream_append import StreamAppend, is_whole_append
from penstock.ha.queue_snapshot import ID_MAX

# Of a record of one queue: where the last octet of its position is, and what comes behind it.
_LAST_OCTET: Final = records.SINGLE_HEAD_SIZE + 7
_TAIL_START: Final = records.SINGLE_HEAD_SIZE + 8
_LAST_OCTET_MAX: Final = 0xFF
# Behind the position: when it expires, exchange, key, the sizes of header and body.
_EXCHANGE_AT: Final = _TAIL_START + 8
_SIZES_SIZE: Final = 8

# What reading or trying a definition raises that is not one: also numbers that are too large, and lists
# that are nested too deeply.
UNUSABLE: Final = (
    Refusal,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


class BadOperation(Exception):
    """A root sent something that is not valid; the text says what. Nothing was changed."""


class MessageRun:
    """Message records beside one another whose parts have the same sizes, and whose positions in one
    queue follow one another. Most operations consist of a few. A record that stands alone is one, too.
    """

    def __init__(self, at: int, size: int, count: int = 1) -> None:
        # Where the first begins in the octets, and the size of each.
        self.at: int = at
        self.size: int = size
        self.count: int = count


class ReplicaOperation:
    """Whole records of one operation, checked. Made by `read_operation`."""

    def __init__(self, octets: bytes, epoch: int, k: int) -> None:
        # Those it was read from; places of records are counted from the first of them.
        self.octets: bytes = octets
        self.epoch: int = epoch
        self.k: int = k
        # Definitions that change, and their texts.
        self.changes: list[Change] = []
        self.texts: list[bytes] = []
        self.runs: list[MessageRun] = []
        self.dequeued: list[records.DequeuedRecord] = []
        # Where records begin of what is appended to streams.
        self.append_places: list[int] = []

    def enqueued(self) -> list[tuple[int, int, int]]:
        """Queue number, first position and count of what it enqueues."""
        found: list[tuple[int, int, int]] = []
        for run in self.runs:
            record = records.MessageRecord(self.octets, run.at)
            for index in range(record.pair_count):
                number, position = record.queue_number(index), record.position(index)
                if found:
                    # Most follow the one before in the same queue.
                    known, first, count = found[-1]
                    if known == number and first + count == position:
                        found[-1] = (number, first, count + run.count)
                        continue
                found.append((number, position, run.count))
        for at in self.append_places:
            append = append_at(self.octets, at)
            found.append((append.number, append.first_id, append.count))
        return found


def read_operation(octets: bytes, start: int = 0) -> ReplicaOperation:
    """The octets from a place on. Raises `BadOperation`."""
    at = start + records.OPERATION_SIZE
    if len(octets) <= at or octets[start] != records.OPERATION:
        raise BadOperation("an operation begins with its number and has at least one record")
    if records.size_at(octets, start) != records.OPERATION_SIZE:
        raise BadOperation("the number of an operation has a wrong size")
    head = records.OperationRecord(octets, start)
    if head.octets != len(octets) - at:
        raise BadOperation(
            f"operation {head.k} of epoch {head.epoch} has {len(octets) - at} "
            f"octets of records instead of {head.octets}"
        )
    operation = ReplicaOperation(octets, head.epoch, head.k)
    while at < len(octets):
        size = whole_record(octets, at)
        kind = octets[at]
        if kind == records.MESSAGE:
            check_message(octets, at, size)
            run = MessageRun(at, size)
            operation.runs.append(run)
            size = _extend(run, octets)
        elif kind == records.DEQUEUED:
            operation.dequeued.append(_dequeued(octets, at, size))
        elif kind == records.APPENDED:
            check_append(octets, at, size)
            operation.append_places.append(at)
        elif kind == records.DEFINITION:
            text = octets[at + records.HEAD_SIZE : at + size]
            operation.changes.append(read_change(text))
            operation.texts.append(text)
        else:
            raise BadOperation(f"{kind} is not a valid kind of record in an operation")
        at += size
    return operation


def _extend(run: MessageRun, octets: bytes) -> int:
    """Count the records behind the first one of a run that belong to it; returns the octets of all.
    Their parts lie where those of the first lie, so that these need not be looked at again. Most are
    equal but for their bodies; others have another header, or key, of the same size.
    """
    at = run.at
    size = run.size
    following = at + size
    end = len(octets)
    if following + size > end or octets[following + 4] != octets[at + 4]:
        # Mostly two records that differ have different sizes.
        return size
    last = octets[at + _LAST_OCTET]
    record = records.MessageRecord(octets, at)
    if record.pair_count != 1:
        return size
    head = octets[at : at + _LAST_OCTET]
    # Up to the body, and with it the sizes of header and body.
    tail_end = size - record.body_size
    tail = octets[at + _TAIL_START : at + tail_end]
    shape: RecordShape | None = None
    # The other octets of a position are part of the head, so a run ends before they change.
    while (
        last < _LAST_OCTET_MAX
        and following + size <= end
        and octets[following + _LAST_OCTET] == last + 1
        and octets[following : following + _LAST_OCTET] == head
    ):
        if octets[following + _TAIL_START : following + tail_end] != tail:
            if shape is None:
                shape = RecordShape(octets, at)
            if not shape.fits(octets, following):
                break
        last += 1
        run.count += 1
        following += size
    return following - at


def spans_of(octets: bytes, runs: list[MessageRun]) -> dict[int, tuple[int, int]]:
    """Lowest and highest position of these messages, by queue number. Raises `BadOperation` if one of
    them comes twice.
    """
    found: dict[int, tuple[int, int]] = {}
    is_ordered = True
    for run in runs:
        record = records.MessageRecord(octets, run.at)
        for index in range(record.pair_count):
            number, first = record.queue_number(index), record.position(index)
            last = first + run.count - 1
            lowest, highest = found.get(number, (first, 0))
            is_ordered = is_ordered and first > highest
            found[number] = min(lowest, first), max(highest, last)
    if not is_ordered:
        _check_each(octets, runs)
    return found


def _check_each(octets: bytes, runs: list[MessageRun]) -> None:
    ids: set[tuple[int, int]] = set()
    for run in runs:
        for at in range(run.at, run.at + run.count * run.size, run.size):
            record = records.MessageRecord(octets, at)
            for index in range(record.pair_count):
                each = record.queue_number(index), record.position(index)
                if each in ids:
                    raise BadOperation(f"message {each[1]} of queue {each[0]} comes twice")
                ids.add(each)


class RecordShape:
    """What a backup looks at in a message record of one queue, behind the position: when it expires,
    and the sizes of its parts.
    """

    def __init__(self, octets: bytes, at: int) -> None:
        """`at` is where the record begins; it is whole."""
        key_at = _EXCHANGE_AT + 1 + octets[at + _EXCHANGE_AT]
        sizes_at = key_at + 1 + octets[at + key_at]
        self._exchange_size: int = octets[at + _EXCHANGE_AT]
        self._key_size: int = octets[at + key_at]
        self._key_at: int = key_at
        self._sizes_at: int = sizes_at
        self._expires: bytes = octets[at + _TAIL_START : at + _EXCHANGE_AT]
        self._sizes: bytes = octets[at + sizes_at : at + sizes_at + _SIZES_SIZE]

    def fits(self, octets: bytes, at: int) -> bool:
        """Whether a record of the same size has it, too."""
        sizes_at = at + self._sizes_at
        return (
            octets[at + _EXCHANGE_AT] == self._exchange_size
            and octets[at + self._key_at] == self._key_size
            and octets[sizes_at : sizes_at + _SIZES_SIZE] == self._sizes
            and octets[at + _TAIL_START : at + _EXCHANGE_AT] == self._expires
        )


def whole_record(octets: bytes, at: int) -> int:
    """The size of the record that begins here; it must end within the octets."""
    if at + records.HEAD_SIZE > len(octets):
        raise BadOperation("a record is cut short")
    size = records.size_at(octets, at)
    if at + size > len(octets):
        raise BadOperation("a record is cut short")
    return size


def check_message(octets: bytes, at: int, size: int) -> None:
    """Raises `BadOperation` unless the parts of a message record fill it exactly."""
    if not records.is_whole_message(octets, at, at + size):
        raise BadOperation("a message record is not what its sizes say")
    record = records.MessageRecord(octets, at)
    for index in range(record.pair_count):
        _check_ids(record.queue_number(index), record.position(index), 1)


def check_append(octets: bytes, at: int, size: int) -> None:
    """Raises `BadOperation` unless entries and payloads of an append fit one another."""
    if not is_whole_append(octets, at + records.HEAD_SIZE, size - records.HEAD_SIZE):
        raise BadOperation("messages of a stream are not what their index says")
    append = StreamAppend(octets, at + records.HEAD_SIZE, size - records.HEAD_SIZE)
    _check_ids(append.number, append.first_id, append.count)


def _check_ids(number: int, first: int, count: int) -> None:
    """A queue, and positions in it."""
    if not 0 < number <= ID_MAX:
        raise BadOperation(f"{number} is not a valid queue number")
    if first == 0 or count == 0 or first + count - 1 > ID_MAX:
        raise BadOperation(f"{count} ids from {first} on are not a valid range")


def _dequeued(octets: bytes, at: int, size: int) -> records.DequeuedRecord:
    if not records.is_whole_dequeued(size):
        raise BadOperation("a record of dequeued messages has a wrong size")
    record = records.DequeuedRecord(octets, at)
    for first, count in record.ranges:
        _check_ids(record.queue_number, first, count)
    return record


def read_change(text: bytes) -> Change:
    try:
        change = decode_change(text)
    except UNUSABLE as error:
        raise BadOperation(f"a definition cannot be read: {error!r}") from error
    check_change(change)
    return change


def check_change(change: Change) -> None:
    """Raises `BadOperation` for numbers of queues and messages that cannot be."""
    if not 0 <= change.queue_number <= ID_MAX:
        raise BadOperation(f"{change.queue_number} is not a valid queue number")
    for number in change.gone_numbers:
        if not 0 <= number <= ID_MAX:
            raise BadOperation(f"{number} is not a valid queue number")
    if isinstance(change.command, NoteReturns):
        for first, count, _ in change.command.returns:
            _check_ids(1, first, count)


def read_snapshot(text: bytes) -> list[Change]:
    try:
        changes = decode_snapshot(text)[0]
    except UNUSABLE as error:
        raise BadOperation(f"the definitions of a SYNC cannot be read: {error!r}") from error
    for change in changes:
        check_change(change)
    return changes


def piece_runs(octets: bytes) -> list[MessageRun]:
    """A row of messages of queues and of streams, whose appends stand alone. Raises `BadOperation`."""
    found: list[MessageRun] = []
    at = 0
    while at < len(octets):
        size = whole_record(octets, at)
        run = MessageRun(at, size)
        if octets[at] == records.APPENDED:
            check_append(octets, at, size)
        elif octets[at] == records.MESSAGE:
            check_message(octets, at, size)
            size = _extend(run, octets)
        else:
            raise BadOperation(f"{octets[at]} is not a message record")
        found.append(run)
        at += size
    return found
