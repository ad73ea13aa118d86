"""A partitioned stream: declared, routed to, listed and deleted as one thing."""

import pytest

from penstock.broker.errors import PreconditionFailed
from penstock.broker.exchanges.partitioned import PartitionedStreamExchange
from penstock.broker.publishing.routing import resolve
from penstock.broker.sent import Sent
from penstock.broker.topology import (
    BindQueue,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    SetVhostLimits,
)
from tests.broker.doubles import DeafConsumer, PlainProperties, routed
from tests.broker.store.doubles import Broker, message
from tests.broker.streams.doubles import Host

STREAM = {"x-queue-type": "stream"}


def partitioned(name: str = "e", count: int = 3, **arguments: object) -> DeclareExchange:
    given: dict[str, object] = {"x-partitions": count}
    for key, value in arguments.items():
        given["x-" + key.replace("_", "-")] = value
    return DeclareExchange(name, "x-partitioned-stream", durable=True, arguments=given)


def routed_to(host: Host, key: str) -> list[str]:
    return routed(host.vhost, "e", key, PlainProperties())


def test_it_is_listed_as_one_thing_with_its_partitions() -> None:
    host = Host()
    host.vhost.apply(partitioned(max_age="1h"), 0)
    listed = host.vhost.partitioned_streams()
    assert [(one.name, one.partitions) for one in listed] == [("e", ["e-0", "e-1", "e-2"])]
    assert host.stream("e-2").settings.max_age_ms == 3_600_000


def test_a_key_decides_the_partition_today_and_tomorrow() -> None:
    host = Host()
    host.vhost.apply(partitioned(), 0)
    exchange = host.vhost.exchanges["e"]
    assert isinstance(exchange, PartitionedStreamExchange)
    # Written down here because streams on disk rely on it.
    assert [exchange.partition_of(key) for key in ("a", "b", "c", "d", "")] == [2, 0, 1, 0, 2]
    spread = [routed_to(host, f"key-{number}")[0] for number in range(300)]
    assert sorted(set(spread)) == ["e-0", "e-1", "e-2"]
    assert min(spread.count(name) for name in set(spread)) > 70


def test_partitions_take_turns_whatever_the_key() -> None:
    host = Host()
    host.vhost.apply(partitioned(partition_by="round-robin"), 0)
    turns = [routed_to(host, "same")[0] for _ in range(6)]
    assert turns == ["e-0", "e-1", "e-2"] * 2


def sent(publisher: str, sequence: int) -> PlainProperties:
    return PlainProperties({"x-publisher-id": publisher, "x-publisher-sequence": sequence})


def test_what_a_publisher_counts_takes_turns_by_its_count() -> None:
    host = Host()
    host.vhost.apply(partitioned(partition_by="round-robin"), 0)
    exchange = host.vhost.exchanges["e"]
    assert isinstance(exchange, PartitionedStreamExchange)
    # Written down here because streams on disk rely on it.
    assert [exchange.turn_of(Sent("job", number)) for number in range(4)] == [1, 2, 0, 1]
    assert {exchange.turn_of(Sent(f"job {number}", 0)) for number in range(20)} == {0, 1, 2}
    turns = [routed(host.vhost, "e", "", sent("job", number))[0] for number in range(3)]
    assert turns == ["e-1", "e-2", "e-0"]
    assert routed_to(host, "same") == ["e-0"], "others are not moved by it"


def publish_counted(broker: Broker, numbers: range) -> None:
    exchange = broker.vhost.exchanges["e"]
    for number in numbers:
        headers: dict[str, object] = {"x-publisher-id": "job", "x-publisher-sequence": number}
        published = message(b"%d" % number, headers=headers)
        for queue in resolve(broker.vhost.routing, exchange, "key", published.properties).queues:
            queue.enqueue(published, broker.now)
        # Somebody else takes a turn in between.
        routed(broker.vhost, "e", "key", PlainProperties())
    broker.tick()


def test_what_is_published_again_lands_once_also_after_a_restart() -> None:
    broker = Broker()
    broker.apply(partitioned(partition_by="round-robin"))
    publish_counted(broker, range(20))
    publish_counted(broker, range(10, 30))
    again = broker.restarted()
    publish_counted(again, range(15, 40))
    bodies: list[bytes] = []
    for name in ("e-0", "e-1", "e-2"):
        found = [entry.message.body for entry in again.vhost.queue(name).browse(100)]
        assert 13 <= len(found) <= 14
        bodies += found
    assert sorted(bodies, key=int) == [b"%d" % number for number in range(40)]


def test_a_second_declaration_must_say_the_same() -> None:
    host = Host()
    host.vhost.apply(partitioned(), 0)
    host.vhost.apply(partitioned(), 0)
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'x-partitions'"):
        host.vhost.apply(partitioned(count=4), 0)
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'x-partition-by'"):
        host.vhost.apply(partitioned(partition_by="round-robin"), 0)


def test_streams_that_are_there_become_partitions() -> None:
    host = Host()
    host.vhost.apply(DeclareQueue("e-1", durable=True, arguments=dict(STREAM)), 0)
    host.vhost.apply(partitioned(), 0)
    assert sorted(host.vhost.queues) == ["e-0", "e-1", "e-2"]


def test_a_name_that_something_else_has_refuses_all_of_it() -> None:
    host = Host()
    host.vhost.apply(DeclareQueue("e-1", durable=True), 0)
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'x-queue-type'"):
        host.vhost.apply(partitioned(), 0)
    assert list(host.vhost.queues) == ["e-1"]
    assert "e" not in host.vhost.exchanges


def test_the_limit_of_queues_refuses_all_of_it() -> None:
    host = Host()
    host.vhost.apply(SetVhostLimits(max_queues=2), 0)
    with pytest.raises(PreconditionFailed, match="queue limit in vhost '/'"):
        host.vhost.apply(partitioned(), 0)
    assert not host.vhost.queues


def test_a_binding_names_a_partition() -> None:
    host = Host()
    host.vhost.apply(partitioned(), 0)
    host.vhost.apply(DeclareQueue("copy"), 0)
    for key in ("3", "-1", "", "one", "٣"):
        with pytest.raises(PreconditionFailed, match="partition number"):
            host.vhost.apply(BindQueue("copy", "e", key), 0)
    host.vhost.apply(BindQueue("copy", "e", "0"), 0)
    key = next(f"k{n}" for n in range(100) if routed_to(host, f"k{n}")[0] == "e-0")
    assert routed_to(host, key) == ["e-0", "copy"]


def test_deleting_the_exchange_deletes_its_partitions_unless_they_are_used() -> None:
    host = Host()
    host.vhost.apply(partitioned(), 0)
    host.vhost.apply(DeclareQueue("other"), 0)
    consumer = DeafConsumer()
    host.stream("e-1").add_consumer(consumer)
    with pytest.raises(PreconditionFailed, match="exchange 'e' in vhost '/' in use"):
        host.vhost.apply(DeleteExchange("e", if_unused=True), 0)
    host.vhost.apply(DeleteExchange("e"), 0)
    assert list(host.vhost.queues) == ["other"]
    assert consumer.heard_cancel
    assert host.vhost.partitioned_streams() == []
