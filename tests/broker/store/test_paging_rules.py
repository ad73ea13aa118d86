"""The rules of queues hold for what is not in memory, too."""

from penstock.broker.entry import QueueEntry
from penstock.broker.topology import SetPolicy
from tests.broker.queues.doubles import RecordingConsumer
from tests.broker.store.doubles import SMALL, Broker, audit, message


class ChoosyConsumer(RecordingConsumer):
    """Wants nothing of its own connection."""

    def __init__(self, own: int) -> None:
        super().__init__()
        self.selective = True
        self._own = own

    def wants(self, entry: QueueEntry) -> bool:
        return entry.message.origin != self._own


def test_a_consumer_without_local_messages_finds_the_others_in_a_paged_queue() -> None:
    broker = Broker(limits=SMALL)
    for name, durable in ("d", True), ("t", False):
        queue = broker.declare(name, durable=durable)
        for number in range(40):
            sent = message(b"%d" % number, persistent=durable, origin=8 if number % 10 else 9)
            queue.enqueue(sent, broker.now)
            broker.tick()
        consumer = ChoosyConsumer(own=8)
        queue.add_consumer(consumer)
        broker.tick()
        assert consumer.bodies == [b"0", b"10", b"20", b"30"]
        queue.enqueue(message(b"new", persistent=durable, origin=9), broker.now)
        broker.tick()
        assert consumer.bodies[-1] == b"new"
        for entry in consumer.taken:
            queue.acknowledge(entry)
        queue.remove_consumer(consumer, broker.now)
        broker.tick()
        expected = [b"%d" % number for number in range(40) if number % 10]
        assert broker.drain(name) == expected
    broker.rest()
    audit(broker)


def test_a_length_limit_drops_from_the_head_of_a_paged_queue() -> None:
    broker = Broker(limits=SMALL)
    broker.declare("dead")
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    broker.declare("q", arguments={"x-max-length": 20, **dead})
    for number in range(50):
        broker.put("q", b"%d" % number)
        broker.tick()
    assert broker.vhost.queue("q").message_count == 20
    assert broker.vhost.queue("dead").message_count == 30
    restarted = broker.restarted()
    assert restarted.drain("dead") == [b"%d" % number for number in range(30)]
    assert restarted.drain("q") == [b"%d" % number for number in range(30, 50)]


def test_a_policy_that_limits_a_paged_queue_drops_its_head() -> None:
    broker = Broker(limits=SMALL)
    broker.declare("q")
    for number in range(50):
        broker.put("q", b"%d" % number)
        broker.tick()
    broker.apply(SetPolicy("p", "q", {"max-length": 3}))
    broker.rest()
    audit(broker)
    assert broker.restarted().drain("q") == [b"47", b"48", b"49"]


def test_a_paged_queue_dies_message_by_message() -> None:
    broker = Broker(limits=SMALL)
    queue = broker.declare("q", arguments={"x-message-ttl": 100})
    for number in range(50):
        broker.put("q", b"%d" % number)
        broker.tick(10)
        broker.state.timers.fire_due(broker.now)
    assert 9 <= queue.message_count <= 11
    broker.tick(1000)
    broker.state.timers.fire_due(broker.now)
    broker.rest()
    audit(broker)
    assert queue.message_count == 0


def test_large_messages_are_read_back_few_at_a_time() -> None:
    broker = Broker()
    broker.declare("q")
    body = b"x" * (3 << 20)
    for _ in range(12):
        broker.put("q", body)
        broker.tick()
    restarted = broker.restarted()
    ready = restarted.vhost.queue("q").ready
    first = ready.first()
    assert first is not None
    in_memory = [position for position in range(1, 13) if ready.entry_of(position) is not None]
    assert len(in_memory) == 2
    assert restarted.drain("q") == [body] * 12
