"""Publishing staged blocks: what streams know of them, and how far a step goes ahead."""

from penstock.broker.sent import ID_HEADER, SEQUENCE_HEADER
from penstock.broker.sinks.message_rows import rows_of
from penstock.broker.sinks.publish_batch import BLOCKS_AHEAD_MAX
from penstock.broker.sinks.sinks import commit, forget_sink, stage
from penstock.broker.sinks.stages import StageKey
from penstock.broker.streams.stream import Stream
from penstock.broker.topology import DeclareQueue
from penstock.storage.memory_disk import MemoryDisk
from tests.broker.store.doubles import Broker, message

SINK = "job"


def publish_all(broker: Broker) -> None:
    """Let time pass until nothing is pending."""
    for _ in range(1000):
        broker.state.timers.fire_due(broker.now)
        broker.tick()
        if not any(sink.pending for sink in broker.vhost.sinks.values()):
            return
    raise AssertionError("it is never published")


def bodies(broker: Broker, name: str) -> list[bytes]:
    return [entry.message.body for entry in broker.vhost.queue(name).browse(10_000)]


def declare_stream(broker: Broker) -> Stream:
    broker.apply(DeclareQueue("s", durable=True, arguments={"x-queue-type": "stream"}))
    stream = broker.vhost.queue("s")
    assert isinstance(stream, Stream)
    return stream


def put_into_stream(broker: Broker, batch: int, attempt: int = 0) -> None:
    """One row, published entirely."""
    row = rows_of([message(b"%d" % batch, key="s")])
    stage(broker.vhost, StageKey(SINK, batch, 0, attempt), row, broker.now)
    broker.tick()
    commit(broker.vhost, SINK, batch, [(0, attempt, 1)], broker.now)
    publish_all(broker)


def test_a_stream_takes_the_rows_of_a_sink_that_was_forgotten() -> None:
    """It counts its batches from 0 again, and these are no repetitions."""
    broker = Broker()
    declare_stream(broker)
    put_into_stream(broker, 5)
    assert forget_sink(broker.vhost, SINK, broker.now)
    broker.tick()
    put_into_stream(broker, 0)
    assert bodies(broker, "s") == [b"5", b"0"]


def test_rows_reach_a_stream_as_they_were_staged() -> None:
    broker = Broker()
    declare_stream(broker)
    put_into_stream(broker, 0)
    [entry] = broker.vhost.queue("s").browse(9)
    assert entry.message.properties.headers() == {}


def test_a_stream_that_knows_a_stage_forgets_it_with_the_stage() -> None:
    broker = Broker()
    stream = declare_stream(broker)
    for batch in range(3):
        put_into_stream(broker, batch)
    assert stream.files.publishers.stages == {}
    again = broker.restarted().vhost.queue("s")
    assert isinstance(again, Stream)
    assert again.files.publishers.stages == {}


def test_a_publisher_cannot_speak_for_a_sink() -> None:
    broker = Broker()
    stream = declare_stream(broker)
    headers: dict[str, object] = {ID_HEADER: f"sink {SINK}", SEQUENCE_HEADER: 2**62}
    stream.enqueue(message(b"a client's", key="s", headers=headers), broker.now)
    broker.tick()
    put_into_stream(broker, 0)
    assert bodies(broker, "s") == [b"a client's", b"0"]


def test_blocks_for_streams_and_for_queues_are_settled_in_order() -> None:
    """Several stages of several blocks, to a stream and to a queue by turns."""
    broker = Broker()
    broker.declare("q")
    declare_stream(broker)
    expected: dict[str, list[bytes]] = {"s": [], "q": []}
    attempts: list[tuple[int, int, int]] = []
    for partition in range(4):
        for block in range(5):
            body = b"%d.%d" % (partition, block)
            name = "q" if block == 2 else "s"
            row = rows_of([message(body, key=name)])
            stage(broker.vhost, StageKey(SINK, 0, partition, 0), row, broker.now)
            expected[name].append(body)
        attempts.append((partition, 0, 5))
    broker.tick()
    commit(broker.vhost, SINK, 0, attempts, broker.now)
    broker.tick()
    while any(sink.pending for sink in broker.vhost.sinks.values()):
        again = broker.restarted()
        publish_all(again)
        assert (bodies(again, "s"), bodies(again, "q")) == (expected["s"], expected["q"])
        broker.state.timers.fire_due(broker.now)
        broker.tick()
    assert (bodies(broker, "s"), bodies(broker, "q")) == (expected["s"], expected["q"])


def test_blocks_are_appended_to_a_stream_ahead_of_the_flush() -> None:
    disk = MemoryDisk(at_once=False)
    broker = Broker(disk)
    declare_stream(broker)
    for row in range(BLOCKS_AHEAD_MAX + 5):
        rows = rows_of([message(b"%d" % row, key="s")])
        stage(broker.vhost, StageKey(SINK, 0, 0, 0), rows, broker.now)
    broker.tick()
    commit(broker.vhost, SINK, 0, [(0, 0, BLOCKS_AHEAD_MAX + 5)], broker.now)
    for _ in range(3):
        # Until the commit is safe.
        broker.state.timers.fire_due(broker.now)
        broker.tick()
        disk.answer_flushes(broker.now)
    for _ in range(BLOCKS_AHEAD_MAX + 5):
        broker.now += 1
        broker.state.timers.fire_due(broker.now)
        broker.tick()
    sink = broker.vhost.sinks[SINK]
    assert len(sink.taken) == BLOCKS_AHEAD_MAX
    assert broker.vhost.queue("s").message_count >= BLOCKS_AHEAD_MAX
    for _ in range(20):
        disk.answer_flushes(broker.now)
        broker.now += 1
        broker.state.timers.fire_due(broker.now)
        broker.tick()
    assert (sink.taken, sink.pending) == ([], [])
    assert bodies(broker, "s") == [b"%d" % row for row in range(BLOCKS_AHEAD_MAX + 5)]


def test_a_step_that_waits_for_a_flush_asks_for_no_time() -> None:
    disk = MemoryDisk(at_once=False)
    broker = Broker(disk)
    declare_stream(broker)
    rows = rows_of([message(b"row", key="s")])
    stage(broker.vhost, StageKey(SINK, 0, 0, 0), rows, broker.now)
    broker.tick()
    commit(broker.vhost, SINK, 0, [(0, 0, 1)], broker.now)
    sink = broker.vhost.sinks[SINK]
    while True:
        broker.state.timers.fire_due(broker.now)
        if sink.taken:
            break
        broker.tick()
        disk.answer_flushes(broker.now)
    broker.tick()
    # It looks for more to take, and finds none.
    broker.state.timers.fire_due(broker.now)
    for _ in range(10):
        broker.tick()
        # What else is due are chores, a day away.
        assert broker.state.timers.next_due() > broker.now + 1000
        assert sink.pending
    for _ in range(2):
        # Of what was appended, and of the wait for it.
        disk.answer_flushes(broker.now)
        broker.tick()
    assert 0 < broker.state.timers.next_due() <= broker.now
    broker.state.timers.fire_due(broker.now)
    assert (sink.taken, sink.pending) == ([], [])
