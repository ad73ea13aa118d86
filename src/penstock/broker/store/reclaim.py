"""Reclaiming disk space: the oldest segment is deleted when nothing in it is needed.

Segments are deleted in order, oldest first, because a dequeue is recorded in a later segment than
the message itself. A segment that is mostly dead, but not entirely, is read record by record and
what lives is copied to the end of the journal; a bounded number of records per tick, so that
clients do not notice. Definitions are repeated as one snapshot before the segment that held them is
deleted, and so is, in a cluster, how far the stream of operations was applied.

A segment that was just filled is mostly dead while consumers keep up, and entirely dead soon after:
so copying waits until what lives stops growing less, and ends as soon as nothing lives. What is appended to
a replicated stream lives until its files are flushed, about a second, and is not copied at all.

The holders of messages are looked up once per pass over a segment (`Holders`), not once per step.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.state import BrokerState
from penstock.broker.store import records
from penstock.broker.store.definition_records import Change, encode_snapshot, snapshot_of
from penstock.broker.store.holders import Holders
from penstock.broker.store.message_store import MessageStore, MovedRecord
from penstock.broker.store.reclaim_pace import BUSY_MS, ReclaimPace
from penstock.broker.store.record_rows import count_in_row
from penstock.storage.batch import BATCH_HEADER_BYTES
from penstock.storage.segment import SEGMENT_HEADER_BYTES, location_of

# A segment is worth copying when at most this share of it lives, or when the journal as a whole is
# mostly dead behind it.
LIVE_SHARE_MAX: Final = 0.5
# Copied per tick at the most; about a millisecond compiled. Less while clients publish (`ReclaimPace`).
STEP_BYTES: Final = 512 * 1024
# A segment is copied when nothing was dequeued from it for this long, or while the journal grew by so
# much, which is an eighth of a segment: acknowledgements that are on their way come before that, also
# those that wait until other servers have a message. A shorter time copies what is dead a moment later;
# with the second limit a journal that grows fast is still reclaimed as fast.
PATIENCE_MS: Final = 500
PATIENCE_BYTES: Final = 8 << 20


@mypyc_attr(allow_interpreted_subclasses=True)
class UnsettledSource:
    """The source of unacknowledged entries: the node."""

    def unsettled(self) -> list[tuple[MessageQueue, QueueEntry]]:
        raise NotImplementedError


def whole_snapshot(state: BrokerState, deliveries: UnsettledSource) -> list[Change]:
    """Of everything that is defined, and of what is noted of messages that are out with consumers."""
    # Going through them takes time, and is seldom needed.
    is_needed = state.shared.is_replicated and any([one.has_returns for one in state.queues()])
    return snapshot_of(state, deliveries.unsettled() if is_needed else [])


class Reclaimer:
    """Held by the node beside the message store."""

    def __init__(
        self,
        store: MessageStore,
        deliveries: UnsettledSource,
        step_bytes: int = STEP_BYTES,
        patience_ms: int = PATIENCE_MS,
        busy_ms: int = BUSY_MS,
    ) -> None:
        self._store: MessageStore = store
        self._pace: ReclaimPace = ReclaimPace(step_bytes, busy_ms)
        self._patience_ms: int = patience_ms
        self._deliveries: UnsettledSource = deliveries
        # The segment that is being copied, and how far it was read; None for none.
        self._holders: Holders | None = None
        self._offset: int = 0
        # Octets of what the present step copies.
        self._written: int = 0
        # The last one that was copied to its end: nothing in it is worth a second look.
        self._copied: int = 0
        # How much lived in the oldest segment at the last step, since when, and where the journal
        # ended then.
        self._seen_live: int = 0
        self._seen_at: int = 0
        self._seen_position: int = 0

    def is_busy(self) -> bool:
        """Whether a segment is half copied."""
        return self._holders is not None

    def begin_anew(self) -> None:
        """All queues were made anew, or got other lists: a pass begins again at its segment's start."""
        self._end_copying()
        self._copied = 0

    def step(self, now: int) -> bool:
        """Do a little, at most once per tick. True when there is more to do at once; what it waits
        for is seen by the ticks that come anyway.
        """
        store = self._store
        segments = store.journal.segments()
        if len(segments) < 2:
            return False
        oldest = segments[0]
        if oldest == store.journal.active_segment():
            return False
        life = store.lives.of(oldest)
        if life.live_count == 0:
            self._end_copying()
            return self._remove(oldest)
        if self._is_copying(oldest):
            return self._go_on(oldest, now)
        if not life.may_be_copied() or not self._is_worth_copying(segments):
            return False
        if not self._is_settled(life.live_count, now):
            return False
        return self._go_on(oldest, now)

    def _go_on(self, segment: int, now: int) -> bool:
        """As far as clients allow. True when there is more to do at once."""
        pace = self._pace
        pace.look(self._store.journal.position, now)
        budget = pace.step_bytes(now)
        if budget:
            self._copy(segment, budget)
        return not pace.is_busy(now)

    def _is_settled(self, live_count: int, now: int) -> bool:
        """Whether nothing was dequeued from the oldest segment for a while."""
        position = self._store.journal.position
        if live_count != self._seen_live:
            self._seen_live = live_count
            self._seen_at = now
            self._seen_position = position
        grown = position - self._seen_position
        return now - self._seen_at >= self._patience_ms or grown >= PATIENCE_BYTES

    def _end_copying(self) -> None:
        if self._holders is not None:
            self._holders.close()
            self._holders = None

    def _is_copying(self, segment: int) -> bool:
        return self._holders is not None and self._holders.segment == segment

    def _is_worth_copying(self, segments: list[int]) -> bool:
        """By the dead share of everything but the active segment: a live head in front of much
        that is dead pays too.
        """
        if self._copied == segments[0]:
            return False
        live = 0.0
        total = 0.0
        for segment in segments[:-1]:
            size = self._store.journal.segment_size(segment)
            total += size
            life = self._store.lives.of(segment)
            if life.total_weight:
                live += size * life.live_weight / life.total_weight
        return live <= total * LIVE_SHARE_MAX

    def _remove(self, segment: int) -> bool:
        store = self._store
        if store.lives.of(segment).has_definitions and store.snapshot_segment <= segment:
            text = encode_snapshot(
                whole_snapshot(store.state, self._deliveries), store.next_queue_number
            )
            store.add_snapshot(text)
            return True
        if store.syn != (0, 0) and store.syn_segment <= segment:
            # The last operation may be in it.
            store.repeat_syn()
            return True
        # The journal removes it only when everything appended so far is durable.
        store.journal.remove_segment(segment)
        store.lives.removed(segment)
        return True

    def _copy(self, segment: int, octets_max: int) -> None:
        """Copy what lives in the next stretch of a segment."""
        store = self._store
        holders = self._holders
        if holders is None:
            unsettled = self._deliveries.unsettled()
            holders = Holders(segment, store.state, unsettled, store.staged)
            self._holders = holders
            self._offset = SEGMENT_HEADER_BYTES
        end = store.journal.segment_size(segment)
        begin = self._offset
        self._written = 0
        while self._offset - begin < octets_max and self._offset < end:
            head = location_of(segment, self._offset)
            payload = store.journal.batch_payload(head)
            self._copy_batch(payload, head + BATCH_HEADER_BYTES, holders)
            self._offset += BATCH_HEADER_BYTES + len(payload)
        self._pace.copied(self._offset - begin, self._written)
        if self._offset >= end:
            self._end_copying()
            self._copied = segment

    def _copy_batch(self, payload: bytes, location: int, holders: Holders) -> None:
        at = 0
        while at < len(payload):
            size = records.size_at(payload, at)
            if payload[at] != records.MESSAGE:
                at += size
                continue
            count = count_in_row(payload, at, size)
            if count == 1 or not self._copy_row(payload, at, count, location + at, holders):
                for place in range(at, at + count * size, size):
                    self._copy_record(payload[place : place + size], location + place, holders)
            at += count * size

    def _copy_row(
        self, payload: bytes, at: int, count: int, location: int, holders: Holders
    ) -> bool:
        """Copy a row of records as one, or leave it out; False if only a part of it is needed."""
        record = records.MessageRecord(payload, at)
        number, position = record.queue_number(0), record.position(0)
        if holders.needs_none(number, position + count - 1):
            return True
        moved = MovedRecord(b"", count)
        moved.count = count
        moved.size = records.size_at(payload, at)
        if not holders.find_row(number, position, location, moved):
            return False
        moved.octets = payload[at : at + count * moved.size]
        # Bodies of a row have the same size, unless headers or keys make up for the difference.
        moved.body_bytes = count * record.body_size
        self._move(moved, holders)
        return True

    def _copy_record(self, octets: bytes, location: int, holders: Holders) -> None:
        record = records.MessageRecord(octets, 0)
        moved = MovedRecord(b"", 0)
        kept: list[int] = []
        for index in range(record.pair_count):
            number, position = record.queue_number(index), record.position(index)
            if holders.find(number, position, location, moved):
                kept.append(index)
        if kept:
            moved.octets = record.with_pairs(kept)
            moved.pair_count = len(kept)
            moved.body_bytes = len(kept) * record.body_size
            self._move(moved, holders)

    def _move(self, moved: MovedRecord, holders: Holders) -> None:
        self._written += len(moved.octets)
        self._store.move(moved, holders.segment)
