"""Runs of entries that are made beforehand and arrive together, in memory and on disk."""

from __future__ import annotations

import pytest

from penstock.broker.entry import QueueEntry
from penstock.broker.observers import QueueObserver
from penstock.broker.publishing.prepared_run import (
    GENEROUS_COUNT_MAX,
    POSITIONS_LEFT_FREE,
    PreparedRun,
)
from penstock.broker.queues.paged_list import PAGE_OUT_COUNT
from penstock.broker.topology import DeclareQueue, DeleteQueue, PurgeQueue
from penstock.client.events import Delivered
from penstock.dialects.turn import COMMIT_STEP_COUNT
from penstock.formats.replication_id import first_id
from penstock.node.configuration import NodeConfiguration
from penstock.node.node import Node
from penstock.storage.memory_disk import MemoryDisk
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.amqp091.content import BasicProperties
from penstock.world.disk import AppendFile
from tests.broker.doubles import CountingEntropy
from tests.broker.store.doubles import message
from tests.seeds.doubles import NOW, House, KeptLogins, Peer

COUNT = COMMIT_STEP_COUNT * 8
PERSISTENT = BasicProperties(delivery_mode=2)


class Stored:
    """A durable queue on a disk, and a client in transaction mode. Held by one test."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        self.disk = disk or MemoryDisk()
        self.house = House()
        self.house.node = self.make_node()
        self.vhost = self.house.node.state.vhost("/")
        if "q" not in self.vhost.queues:
            self.vhost.apply(DeclareQueue("q", durable=True), NOW)
            self.vhost.apply(DeclareQueue("other", durable=True), NOW)

    def make_node(self) -> Node:
        configuration = NodeConfiguration("1.2.3", "a test", "house")
        logins = KeptLogins()
        self.house.logins = logins
        return Node(configuration, CountingEntropy(), logins, NOW, 0, self.disk)

    def writer(self, count: int, first: int = 0) -> Peer:
        peer = self.house.client()
        peer.call(m.TxSelect())
        for number in range(first, first + count):
            peer.conversation.publish(1, "", "q", b"%d" % number, PERSISTENT)
        self.house.settle()
        return peer

    def begin(self, writer: Peer) -> None:
        """Its commit is heard, and not done."""
        self.house.node.container.turns.units_max = 50
        writer.conversation.call(1, m.TxCommit())
        writer.deliver_to_node()
        self.house.node.flush(NOW)
        assert self.vhost.queues["q"].message_count == 0

    def finish(self) -> None:
        self.house.settle()

    def restarted(self) -> Stored:
        """Another process on what this one has written."""
        return Stored(self.disk)

    def bodies(self) -> list[bytes]:
        queue = self.vhost.queues["q"]
        return [entry.message.body for entry in queue.browse(queue.message_count)]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_a_long_commit_is_there_in_order_before_and_after_a_restart() -> None:
    stored = Stored()
    writer = stored.writer(COUNT)
    stored.begin(writer)
    stored.finish()
    assert stored.bodies() == numbers(COUNT)
    assert stored.restarted().bodies() == numbers(COUNT)


def test_nothing_is_written_before_everything_is() -> None:
    stored = Stored()
    writer = stored.writer(COUNT)
    stored.begin(writer)
    assert stored.house.node.stored is not None
    journal = stored.house.node.stored.journal
    position = journal.position
    while stored.vhost.queues["q"].message_count == 0:
        assert journal.position == position
        stored.house.node.flush(NOW)
    assert stored.restarted().bodies() == numbers(COUNT)


class PieceFile(AppendFile):
    """A file in memory that notes the longest octets that it was given in one."""

    def __init__(self, file: AppendFile) -> None:
        self._file = file
        self.longest = 0

    def size(self) -> int:
        return self._file.size()

    def append(self, data: bytes) -> int:
        self.longest = max(self.longest, len(data))
        return self._file.append(data)

    def append_pieces(self, pieces: list[bytes]) -> int:
        self.longest = max(self.longest, *map(len, pieces))
        return self._file.append(b"".join(pieces))

    def read(self, position: int, size: int) -> bytes:
        return self._file.read(position, size)

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def close(self) -> None:
        self._file.close()


class PieceDisk(MemoryDisk):
    def __init__(self) -> None:
        super().__init__()
        self.opened: dict[str, PieceFile] = {}

    def open(self, name: str) -> AppendFile:
        if name not in self.opened:
            self.opened[name] = PieceFile(super().open(name))
        return self.opened[name]


def test_the_last_step_does_not_join_what_was_prepared() -> None:
    disk = PieceDisk()
    stored = Stored(disk)
    stored.finish()
    [journal] = [file for name, file in disk.opened.items() if name.startswith("journal/")]
    before = journal.size()
    journal.longest = 0
    stored.begin(stored.writer(COUNT))
    stored.finish()
    # A piece for each step, and a little for headers.
    steps = COUNT // COMMIT_STEP_COUNT
    assert journal.longest < (journal.size() - before) // steps * 2
    assert stored.restarted().bodies() == numbers(COUNT)


def test_a_crash_during_the_preparation_rolls_back() -> None:
    stored = Stored()
    stored.begin(stored.writer(COUNT))
    for _ in range(3):
        stored.house.node.flush(NOW)
    assert stored.bodies() == []
    assert stored.restarted().bodies() == []


@pytest.mark.parametrize("taken", [0, 3], ids=["published", "published and taken"])
def test_a_commit_comes_behind_what_others_publish_meanwhile(taken: int) -> None:
    stored = Stored()
    writer = stored.writer(COUNT)
    other = stored.house.client()
    stored.begin(writer)
    for body in (b"a", b"b", b"c"):
        other.conversation.publish(1, "", "q", body, PERSISTENT)
    other.deliver_to_node()
    for _ in range(taken):
        other.conversation.call(1, m.BasicGet("q", no_ack=True))
    other.deliver_to_node()
    stored.finish()
    expected = [b"a", b"b", b"c"][taken:] + numbers(COUNT)
    assert stored.bodies() == expected
    assert stored.restarted().bodies() == expected
    positions = stored.vhost.queues["q"].journal_list().positions()
    assert positions == sorted(set(positions))


def runs_of(stored: Stored, *names: bytes) -> list[PreparedRun]:
    """Runs that are made at the same time, each with bodies that tell it."""
    queue = stored.vhost.queues["q"]
    made = []
    for name in names:
        run = PreparedRun(queue)
        for begin in (0, 3):
            run.add([message(name + b"%d" % number) for number in range(begin, begin + 3)])
        made.append(run)
    return made


def test_a_run_that_was_overtaken_is_corrected_when_it_is_enqueued() -> None:
    stored = Stored()
    one, other = runs_of(stored, b"one", b"other")
    assert not one.is_overtaken()
    other.enqueue(0)
    assert one.is_overtaken()
    one.enqueue(0)
    stored.finish()
    expected = [b"other%d" % number for number in range(6)] + [b"one%d" % n for n in range(6)]
    assert stored.bodies() == expected
    assert stored.restarted().bodies() == expected


def test_no_positions_are_left_free_once_half_of_an_epochs_are_used_up() -> None:
    stored = Stored()
    queue = stored.vhost.queues["q"]
    used = QueueEntry(message(b"used"), GENEROUS_COUNT_MAX - 1)
    queue.enqueue_run([used], 4, 0)
    positions: list[int] = []
    for _ in range(2):
        for run in runs_of(stored, b"run"):
            run.enqueue(0)
        positions.append(queue.end_position())
    start = GENEROUS_COUNT_MAX
    assert positions == [start + 6, start + 12]
    # The next epoch has as many again.
    queue.begin_epoch(1)
    for run in runs_of(stored, b"run"):
        run.enqueue(0)
    assert queue.end_position() == first_id(1) + POSITIONS_LEFT_FREE + 6


def test_a_run_is_not_overtaken_by_some_messages() -> None:
    stored = Stored()
    [run] = runs_of(stored, b"run")
    queue = stored.vhost.queues["q"]
    for number in range(100):
        assert queue.enqueue(message(b"m%d" % number), NOW)
    assert not run.is_overtaken()
    run.enqueue(0)
    assert queue.enqueue(message(b"last"), NOW)
    stored.finish()
    expected = [b"m%d" % number for number in range(100)]
    expected += [b"run%d" % number for number in range(6)] + [b"last"]
    assert stored.bodies() == expected
    assert stored.restarted().bodies() == expected


def test_a_commit_that_was_overtaken_by_another_is_made_anew_in_slices() -> None:
    stored = Stored()
    # Long ones, in order that the second has not begun to be placed when the first is done.
    one = stored.writer(COUNT)
    other = stored.writer(COUNT, COUNT)
    stored.house.node.container.turns.units_max = 50
    for writer in (one, other):
        writer.conversation.call(1, m.TxCommit())
        writer.deliver_to_node()
    queue = stored.vhost.queues["q"]
    ticks = 0
    counts = set()
    while stored.house.node.has_work():
        stored.house.node.flush(NOW)
        counts.add(queue.message_count)
        ticks += queue.message_count == COUNT
    assert counts == {0, COUNT, 2 * COUNT}
    # Routing was over for both, so what took time was to make the entries of one of them again.
    assert ticks >= COUNT // COMMIT_STEP_COUNT // 2
    assert sorted(stored.bodies()) == sorted(numbers(2 * COUNT))
    assert stored.restarted().bodies() == stored.bodies()


def test_a_purge_of_several_runs_stays_done_after_a_restart() -> None:
    stored = Stored()
    for _ in range(3):
        stored.begin(stored.writer(3 * PAGE_OUT_COUNT // 2))
        stored.finish()
        stored.vhost.apply(PurgeQueue("q"), NOW)
        stored.finish()
    assert stored.restarted().bodies() == []


def test_what_a_consumer_takes_in_the_same_tick_does_not_come_back_after_a_restart() -> None:
    stored = Stored()
    writer = stored.writer(COUNT)
    consumer = stored.house.client()
    consumer.call(m.BasicConsume("q", no_ack=True))
    stored.begin(writer)
    stored.finish()
    got = [event.body for event in consumer.events if isinstance(event, Delivered)]
    assert got == numbers(COUNT)
    assert stored.restarted().bodies() == []


def test_what_is_purged_or_deleted_after_it_stays_away() -> None:
    stored = Stored()
    stored.begin(stored.writer(COUNT))
    stored.finish()
    stored.vhost.apply(PurgeQueue("q"), NOW)
    stored.finish()
    assert stored.restarted().bodies() == []
    stored.begin(stored.writer(COUNT))
    stored.finish()
    stored.vhost.apply(DeleteQueue("q"), NOW)
    stored.finish()
    assert stored.restarted().bodies() == []


def test_transient_messages_of_a_commit_are_not_there_after_a_restart() -> None:
    stored = Stored()
    writer = stored.writer(COUNT)
    for number in range(COUNT):
        writer.conversation.publish(1, "", "q", b"t%d" % number)
    stored.house.settle()
    stored.begin(writer)
    stored.finish()
    assert len(stored.bodies()) == 2 * COUNT
    assert stored.restarted().bodies() == numbers(COUNT)


@pytest.mark.parametrize("earlier", [0, 3 * PAGE_OUT_COUNT // 2], ids=["empty", "with a tail"])
def test_a_commit_that_outgrows_memory_is_paged_out_over_ticks_and_read_back(earlier: int) -> None:
    stored = Stored()
    count = PAGE_OUT_COUNT * 3
    if earlier:
        stored.begin(stored.writer(earlier))
        stored.finish()
    stored.house.node.container.turns.units_max = 1_000_000
    writer = stored.writer(count, earlier)
    writer.conversation.call(1, m.TxCommit())
    writer.deliver_to_node()
    queue = stored.vhost.queues["q"]
    left = []
    while stored.house.node.has_work():
        before = queue.journal_list().in_memory_count()
        stored.house.node.flush(NOW)
        left.append(before - queue.journal_list().in_memory_count())
    assert queue.message_count == earlier + count
    assert queue.journal_list().in_memory_count() < PAGE_OUT_COUNT
    # Not all of it in the tick that wrote it.
    assert max(left) < count
    assert stored.bodies() == numbers(earlier + count)
    assert stored.restarted().bodies() == numbers(earlier + count)


class Counting(QueueObserver):
    """Counts what arrives."""

    def __init__(self) -> None:
        self.count = 0

    def enqueued(self, entry: QueueEntry) -> None:
        self.count += 1


def test_somebody_who_begins_to_observe_the_queue_meanwhile_sees_every_message() -> None:
    stored = Stored()
    writer = stored.writer(COUNT)
    stored.begin(writer)
    queue = stored.vhost.queues["q"]
    queue.observers.append(Counting())
    stored.finish()
    observer = queue.observers[0]
    assert isinstance(observer, Counting)
    assert observer.count == COUNT
