"""Messages that reach a stream through the journal: once, whatever a power loss leaves of which file."""

from penstock.broker.entry import QueueEntry
from penstock.broker.exchanges.delayed import DELAY_HEADER, KIND, TYPE_ARGUMENT, DelayedExchange
from penstock.broker.message import Message, Publisher
from penstock.broker.publishing.publish import hold_back
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.sent import ID_HEADER, SEQUENCE_HEADER
from penstock.broker.sinks.message_rows import rows_of
from penstock.broker.sinks.sinks import commit, stage
from penstock.broker.sinks.stages import StageKey
from penstock.broker.streams.folders import ROOT
from penstock.broker.streams.journalled_appends import OFFSET_BITS, offset_of
from penstock.broker.streams.stream import Stream
from penstock.broker.topology import BindQueue, DeclareExchange, DeleteQueue
from penstock.storage.memory_disk import MemoryDisk
from tests.broker.store.doubles import ROOMY, SMALL, Broker, copied, message

STREAM_ARGUMENTS: dict[str, object] = {"x-queue-type": "stream"}
TO_THE_STREAM: dict[str, object] = {
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": "s",
}


class Machine:
    """A broker whose flushes are answered when the test says so, with a queue and a stream."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        disk = broker.disk
        assert isinstance(disk, MemoryDisk)
        self.disk = disk

    @property
    def stream(self) -> Stream:
        stream = self.broker.vhost.queue("s")
        assert isinstance(stream, Stream)
        return stream

    def answer(self) -> None:
        self.disk.answer_flushes(self.broker.now)

    def settle(self) -> None:
        """Tick until all is safe and done."""
        quiet_count = 0
        for _ in range(100):
            self.broker.tick()
            self.answer()
            has_work = self.broker.stored.has_work() or self.broker.state.touched
            # Twice: a flush may have been asked for while another was on its way.
            quiet_count = 0 if has_work else quiet_count + 1
            if quiet_count == 2:
                return
        raise AssertionError("it never comes to rest")

    def bodies(self) -> list[bytes]:
        return [entry.message.body for entry in self.stream.browse(1000)]

    def reject(self) -> None:
        """The first message of the queue dies."""
        entry = self.broker.get("q")
        self.broker.settle(entry).reject(entry, self.broker.now)

    def publish_in_transaction(self, body: bytes, *, persistent: bool = True) -> None:
        published = message(body, persistent=persistent)
        published.through_journal = True
        assert self.stream.enqueue(published, self.broker.now)

    def needed_count(self) -> int:
        """Messages that the journal is still needed for."""
        return sum(
            self.broker.store.lives.of(segment).live_count
            for segment in self.broker.journal.segments()
        )

    def stream_files(self) -> dict[str, bytes]:
        return {
            name: bytes(file.content)
            for name, file in self.disk.files.items()
            if name.startswith(ROOT)
        }

    def restarted(self, stream_files: dict[str, bytes] | None = None) -> "Machine":
        """The power goes now, keeps the journal, and of the streams what is given."""
        disk = MemoryDisk(at_once=False)
        disk.files = copied(self.disk).files
        if stream_files is not None:
            for name in [name for name in disk.files if name.startswith(ROOT)]:
                del disk.files[name]
            for name, content in stream_files.items():
                disk.open(name).append(content)
        wall = self.broker.now + self.broker.state.wall.offset_ms + 1
        return Machine(Broker(disk, self.broker.limits, 500, wall))


def machine(*bodies: bytes) -> Machine:
    """With messages in the queue, all of it safe."""
    made = Machine(Broker(MemoryDisk(at_once=False), ROOMY))
    made.broker.declare("q", arguments=TO_THE_STREAM)
    made.broker.declare("s", arguments=STREAM_ARGUMENTS)
    made.broker.put("q", *bodies)
    made.settle()
    return made


def test_a_dead_letter_is_appended_when_the_journal_has_it_safely_and_not_before() -> None:
    running = machine(b"one")
    running.reject()
    running.broker.tick()
    assert running.bodies() == []
    assert running.stream.message_count == 1
    running.answer()
    running.broker.tick()
    assert running.bodies() == [b"one"]


def test_readers_see_a_dead_letter_when_it_is_safe_in_the_stream() -> None:
    running = machine(b"one")
    running.reject()
    running.broker.tick()
    running.answer()
    running.broker.tick()
    assert running.stream.files.readable_offset() == 0
    running.answer()
    assert running.stream.files.readable_offset() == 1


def test_the_journal_is_needed_until_the_stream_has_it_safely_and_no_longer() -> None:
    running = machine(b"one")
    running.reject()
    running.broker.tick()
    assert running.needed_count() == 1
    running.answer()
    running.broker.tick()
    assert running.needed_count() == 1
    running.settle()
    assert running.needed_count() == 0
    assert running.bodies() == [b"one"]


def test_a_batch_that_is_lost_leaves_nothing_in_the_stream() -> None:
    running = machine(b"one")
    before = copied(running.disk)
    running.reject()
    running.broker.tick()
    lost = Machine(Broker(before, ROOMY)).restarted(running.stream_files())
    lost.settle()
    assert lost.bodies() == []
    assert lost.broker.vhost.queue("q").message_count == 1


def test_what_a_stream_loses_comes_back_from_the_journal_once() -> None:
    running = machine(b"one", b"two")
    empty = running.stream_files()
    running.reject()
    running.reject()
    running.broker.tick()
    running.answer()
    running.broker.tick()
    for kept in (empty, running.stream_files()):
        found = running.restarted(kept)
        assert found.broker.vhost.queue("q").message_count == 0
        found.settle()
        assert found.bodies() == [b"one", b"two"]
        assert found.needed_count() == 0
        again = found.restarted()
        again.settle()
        assert again.bodies() == [b"one", b"two"]


def test_at_whatever_step_the_power_goes_each_message_is_in_one_place() -> None:
    running = machine(b"one", b"two", b"three")
    safe = running.stream_files()
    for step in range(12):
        if step in {0, 1, 3}:
            running.reject()
        before = running.stream_files()
        running.broker.tick()
        for kept in (safe, before, running.stream_files()):
            found = running.restarted(kept)
            # And once more, before anything is safe.
            found.broker.tick()
            twice = found.restarted(kept)
            for end in (found, twice):
                end.settle()
                queued = [entry.message.body for entry in end.broker.vhost.queue("q").browse(10)]
                assert sorted([*end.bodies(), *queued]) == [b"one", b"three", b"two"]
        written = running.stream_files()
        running.answer()
        safe = written


class Hearing(Publisher):
    """Remembers which of its messages were held and completed."""

    def __init__(self) -> None:
        self.waits: set[int] = set()

    def held(self, sequence: int) -> None:
        self.waits.add(sequence)

    def completed(self, sequence: int) -> None:
        self.waits.remove(sequence)


def test_what_comes_meanwhile_waits_behind_and_is_not_written_twice() -> None:
    running = machine(b"one")
    empty = running.stream_files()
    running.reject()
    running.broker.put("s", b"two")
    running.broker.tick()
    running.broker.put("s", b"three")
    running.broker.tick()
    found = running.restarted(empty)
    found.settle()
    assert found.bodies() == [b"one"], "nobody was told of the others"
    running.settle()
    assert running.bodies() == [b"one", b"two", b"three"]
    assert running.needed_count() == 0
    running.broker.put("s", b"four")
    running.broker.tick()
    assert running.bodies()[-1] == b"four", "nothing is on its way any more"


def test_who_waits_behind_hears_its_confirm_when_the_stream_has_it_safely() -> None:
    running = machine(b"one")
    running.reject()
    publisher = Hearing()
    for sequence in (1, 2):
        # The second repeats the first.
        published = numbered(b"two", 7)
        published.publisher = publisher
        published.sequence = sequence
        assert running.stream.enqueue(published, running.broker.now)
        running.broker.tick()
    running.answer()
    running.broker.tick()
    assert running.bodies() == [b"one", b"two"]
    assert publisher.waits == {1, 2}
    running.answer()
    assert publisher.waits == set()


def test_a_deleted_stream_lets_those_go_who_wait() -> None:
    running = machine(b"one")
    running.reject()
    publisher = Hearing()
    published = message(b"two")
    published.publisher = publisher
    published.sequence = 1
    assert running.stream.enqueue(published, running.broker.now)
    assert publisher.waits == {1}
    running.broker.apply(DeleteQueue("s"))
    assert publisher.waits == set()
    running.settle()


def test_messages_of_the_tick_that_came_before_are_not_written_twice() -> None:
    running = machine(b"one")
    running.broker.put("s", b"zero")
    running.reject()
    running.broker.tick()
    assert running.bodies() == [b"zero"]
    assert [offset_of(entry.position) for entry in running.stream.journalled.entries()] == [1]
    running.settle()
    assert running.bodies() == [b"zero", b"one"]


def test_offsets_that_were_lost_are_used_again_and_known_apart() -> None:
    running = machine(b"one")
    empty = running.stream_files()
    running.broker.put("s", b"lost", b"lost too")
    running.reject()
    running.broker.tick()
    running.answer()
    found = running.restarted(empty)
    found.broker.tick()
    positions = [entry.position for entry in found.stream.journalled.entries()]
    assert positions == [1 << OFFSET_BITS]
    found.answer()
    found.broker.tick()
    # The stream has it, and the journal does not know that this is safe.
    again = found.restarted()
    again.settle()
    assert again.bodies() == [b"one"]
    found.settle()
    # The same offset as the first time, and as often as it takes.
    found.broker.put("s", b"new")
    found.settle()
    kept = found.stream_files()
    found.publish_in_transaction(b"two")
    found.broker.tick()
    last = found.restarted(kept)
    last.settle()
    assert last.bodies() == [b"one", b"new", b"two"]


def test_a_transaction_is_in_queue_and_stream_together() -> None:
    running = machine()
    empty = running.stream_files()
    published = message(b"both")
    published.through_journal = True
    for name in ("s", "q"):
        assert running.broker.vhost.queue(name).enqueue(published, running.broker.now)
    running.broker.tick()
    found = running.restarted(empty)
    found.settle()
    assert found.bodies() == [b"both"]
    assert found.broker.drain("q") == [b"both"]
    found.settle()
    assert found.needed_count() == 0


def test_a_message_that_is_not_persistent_leaves_the_journal_too() -> None:
    running = machine()
    running.publish_in_transaction(b"one", persistent=False)
    running.settle()
    assert running.bodies() == [b"one"]
    assert running.needed_count() == 0


def test_a_deleted_stream_needs_nothing_of_the_journal() -> None:
    running = machine(b"one")
    running.reject()
    running.broker.tick()
    running.answer()
    running.broker.apply(DeleteQueue("s"))
    running.settle()
    assert running.needed_count() == 0


def test_segments_of_the_journal_are_given_back() -> None:
    running = Machine(Broker(MemoryDisk(at_once=False), SMALL))
    running.broker.declare("q", arguments=TO_THE_STREAM)
    running.broker.declare("s", arguments=STREAM_ARGUMENTS)
    running.settle()
    for number in range(200):
        running.broker.put("q", b"%d" % number * 20)
        running.broker.tick()
        running.reject()
        running.broker.tick()
        if number % 7 == 0:
            running.answer()
    running.settle()
    assert len(running.stream.browse(1000)) == 200
    assert len(running.broker.journal.segments()) <= 3


def test_a_delayed_message_leaves_the_journal_for_the_stream_in_one_batch() -> None:
    running = machine()
    running.broker.apply(
        DeclareExchange("later", KIND, durable=True, arguments={TYPE_ARGUMENT: "direct"})
    )
    running.broker.apply(BindQueue("s", "later", "s"))
    publish_delayed(running, message(b"one", exchange="later", key="s", headers={DELAY_HEADER: 5}))
    running.settle()
    empty = running.stream_files()
    running.broker.now += 10
    running.broker.vhost.timers.fire_due(running.broker.now)
    running.broker.tick()
    assert running.broker.vhost.delay_line.waiting.count == 0
    running.answer()
    running.broker.tick()
    for kept in (empty, running.stream_files()):
        found = running.restarted(kept)
        assert found.broker.vhost.delay_line.waiting.count == 0
        found.settle()
        assert found.bodies() == [b"one"]


def publish_delayed(running: Machine, published: Message) -> None:
    broker = running.broker
    exchange = broker.vhost.exchanges["later"]
    assert isinstance(exchange, DelayedExchange)
    hold_back(broker.vhost.routing, exchange, published, broker.now)


def numbered(body: bytes, number: int, **headers: object) -> Message:
    return message(
        body,
        headers={ID_HEADER: "p", SEQUENCE_HEADER: number, **headers},
        exchange="later",
        key="s",
    )


def test_dead_letters_of_a_publisher_that_counts_come_in_any_order() -> None:
    running = machine()
    queue: MessageQueue = running.broker.vhost.queue("q")
    for number in (1, 2):
        assert queue.enqueue(numbered(b"%d" % number, number), running.broker.now)
    entries: list[QueueEntry] = [running.broker.get("q"), running.broker.get("q")]
    for entry in reversed(entries):
        running.broker.settle(entry).reject(entry, running.broker.now)
    running.settle()
    assert running.bodies() == [b"2", b"1"]


def test_delayed_messages_of_a_publisher_that_counts_come_in_any_order() -> None:
    running = machine()
    running.broker.apply(
        DeclareExchange("later", KIND, durable=True, arguments={TYPE_ARGUMENT: "direct"})
    )
    running.broker.apply(BindQueue("s", "later", "s"))
    for number, delay in ((1, 9), (2, 5)):
        publish_delayed(running, numbered(b"%d" % number, number, **{DELAY_HEADER: delay}))
    running.settle()
    for _ in range(20):
        running.broker.now += 1
        running.broker.vhost.timers.fire_due(running.broker.now)
    running.settle()
    assert running.bodies() == [b"2", b"1"]


def test_a_number_on_its_way_is_known_and_not_noted_before_it_is_appended() -> None:
    running = Machine(Broker(MemoryDisk(at_once=False), ROOMY))
    running.broker.declare("q", arguments=TO_THE_STREAM)
    arguments = {**STREAM_ARGUMENTS, "x-stream-max-segment-size-bytes": 1}
    running.broker.declare("s", arguments=arguments)
    running.settle()
    for number in (1, 2, 2, 1, 3):
        published = numbered(b"%d" % number, number)
        published.through_journal = True
        assert running.stream.enqueue(published, running.broker.now)
        running.broker.tick()
    assert running.stream.message_count == 3
    running.answer()
    assert running.stream.files.publishers.sequences == {}
    running.settle()
    assert running.bodies() == [b"1", b"2", b"3"]
    assert running.stream.files.publishers.sequences == {"p": 3}
    found = running.restarted()
    assert found.stream.files.publishers.sequences == {"p": 3}


def test_a_number_that_is_repeated_in_a_transaction_lands_once() -> None:
    running = machine()
    for body in (b"one", b"again"):
        published = numbered(body, 1)
        published.through_journal = True
        assert running.stream.enqueue(published, running.broker.now)
        running.settle()
    assert running.bodies() == [b"one"]


def test_a_note_of_publishers_without_its_segment_is_forgotten() -> None:
    running = Machine(Broker(MemoryDisk(at_once=False), ROOMY))
    arguments = {**STREAM_ARGUMENTS, "x-stream-max-segment-size-bytes": 100}
    running.broker.declare("s", arguments=arguments)
    running.settle()
    for number in (1, 2, 3):
        assert running.stream.enqueue(numbered(b"%d" % number, number), running.broker.now)
        running.settle()
    kept = {
        name: content
        for name, content in running.stream_files().items()
        if "/00000000000000000001.log" not in name
        and "/00000000000000000001.idx" not in name
        and "/00000000000000000002." not in name
    }
    # What is left of the second segment is its note.
    assert sum(name.endswith(".pub") for name in kept) == 1
    found = running.restarted(kept)
    assert not any(name.endswith(".pub") for name in found.disk.names())
    for number in (2, 3):
        assert found.stream.enqueue(numbered(b"%d" % number, number), found.broker.now)
        found.settle()
    assert found.bodies() == [b"1", b"2", b"3"]


def test_rows_of_a_sink_wait_behind_what_the_journal_has_for_the_stream() -> None:
    running = machine(b"dead")
    now = running.broker.now
    for body in (b"row 1", b"row 2"):
        rows = rows_of([message(body, key="s")])
        stage(running.broker.vhost, StageKey("job", 0, 0, 0), rows, now)
    running.settle()
    commit(running.broker.vhost, "job", 0, [(0, 0, 2)], now)
    running.broker.state.timers.fire_due(now)
    running.settle()
    running.reject()
    for _ in range(2):
        running.broker.now += 1
        running.broker.state.timers.fire_due(running.broker.now)
    waiting = running.stream.journalled.waiting()
    assert [(entry.position, entry.message.body) for entry in waiting] == [
        (0, b"dead"),
        (1, b"row 1"),
        (2, b"row 2"),
    ]
    assert running.stream.message_count == 3
    for _ in range(5):
        running.settle()
        running.broker.now += 1
        running.broker.state.timers.fire_due(running.broker.now)
    assert running.bodies() == [b"dead", b"row 1", b"row 2"]
    assert running.broker.vhost.sinks["job"].pending == []
