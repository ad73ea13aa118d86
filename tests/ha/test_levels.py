"""What the next root of a cluster has of queues and exchanges of each level of replication."""

from __future__ import annotations

import pytest

from penstock.broker.replication_level import ReplicationLevel
from penstock.broker.vhost import VirtualHost
from penstock.wire.amqp091 import methods_generated as m
from tests.seeds.cluster_doubles import Cluster, SimulatedClient

LEVELS = ("none", "configuration", "all")


def declare_all(client: SimulatedClient) -> None:
    """A queue and an exchange of each level, everything bound to everything."""
    for word in LEVELS:
        client.call(m.QueueDeclare(word, durable=True, arguments={"x-replicate": word}))
        client.call(
            m.ExchangeDeclare(f"x.{word}", "topic", durable=True, arguments={"x-replicate": word})
        )
    for queue in LEVELS:
        for exchange in LEVELS:
            client.call(m.QueueBind(queue, f"x.{exchange}", "key"))
        client.call(m.QueueBind(queue, "amq.topic", "key"))


def vhost(cluster: Cluster, name: str) -> VirtualHost:
    return cluster.hosts[name].node.state.vhost("/")


def bindings(host: VirtualHost) -> set[tuple[str, str]]:
    listed = host.bindings.listed()
    return {(one.source.name, one.destination_name) for one in listed if one.source.name}


def counts(host: VirtualHost) -> dict[str, int]:
    return {name: queue.message_count for name, queue in host.queues.items()}


def check_survivors(cluster: Cluster, root: str) -> None:
    """Of what `declare_all` has made, and one message for every queue."""
    cluster.elected(root)
    cluster.settle()
    for name in cluster.up():
        host = vhost(cluster, name)
        assert set(host.queues) == {"configuration", "all"}
        assert counts(host) == {"configuration": 0, "all": 1}
        assert {"x.configuration", "x.all"} < set(host.exchanges)
        assert "x.none" not in host.exchanges
        assert bindings(host) == {
            (exchange, queue)
            for exchange in ("x.configuration", "x.all", "amq.topic")
            for queue in ("configuration", "all")
        }
    assert cluster.have_same_definitions()
    assert cluster.are_equal()


def with_everything(cluster: Cluster) -> SimulatedClient:
    client = cluster.client()
    declare_all(client)
    client.confirmed_publish("key", b"one", exchange="amq.topic")
    cluster.settle()
    return client


def test_every_server_knows_objects_of_every_level_and_has_messages_of_level_all() -> None:
    cluster = Cluster()
    with_everything(cluster)
    assert counts(vhost(cluster, "a")) == dict.fromkeys(LEVELS, 1)
    for name in "bc":
        host = vhost(cluster, name)
        assert counts(host) == {"none": 0, "configuration": 0, "all": 1}
        assert [host.queue(word).level.value for word in LEVELS] == list(LEVELS)
        assert [host.exchange(f"x.{word}").level.value for word in LEVELS] == list(LEVELS)
    assert cluster.have_same_definitions()


def test_after_the_root_was_killed() -> None:
    """A1 and A20 of Qpid's tests: queues, exchanges and bindings at each level."""
    cluster = Cluster()
    with_everything(cluster)
    cluster.hosts["a"].die()
    check_survivors(cluster, "b")
    cluster.client().confirmed_publish("key", b"two", exchange="amq.topic")
    cluster.settle()
    assert counts(vhost(cluster, "b")) == {"configuration": 1, "all": 2}


def test_after_the_root_has_handed_over_and_got_its_role_back() -> None:
    """A root that steps down drops what it held alone, and does not offer it again."""
    cluster = Cluster()
    with_everything(cluster)
    cluster.hand_over("b")
    check_survivors(cluster, "b")
    cluster.hand_over("a")
    check_survivors(cluster, "a")


def test_after_the_same_server_was_elected_again() -> None:
    cluster = Cluster()
    with_everything(cluster)
    for host in cluster.hosts.values():
        host.die()
    for host in cluster.hosts.values():
        host.revive()
    check_survivors(cluster, "a")


def test_after_a_backup_has_joined_anew() -> None:
    """A SYNC carries the levels, and no message of the lower ones."""
    cluster = Cluster()
    cluster.hosts["c"].die()
    client = cluster.client()
    declare_all(client)
    client.confirmed_publish("key", b"one", exchange="amq.topic")
    cluster.hosts["c"].revive()
    cluster.elected("a")
    cluster.settle()
    assert counts(vhost(cluster, "c")) == {"none": 0, "configuration": 0, "all": 1}
    assert cluster.have_same_definitions()
    for name in "ab":
        cluster.hosts[name].die()
    cluster.hosts["b"].revive()
    cluster.until(lambda: bool(cluster.roots()))
    assert counts(vhost(cluster, cluster.roots()[0])) == {"configuration": 0, "all": 1}


def test_publishes_to_lower_levels_wait_for_no_backup() -> None:
    """Neither their confirms nor their deliveries. Those to level all do."""
    cluster = Cluster()
    client = cluster.client()
    declare_all(client)
    consumer = cluster.client()
    for word in LEVELS:
        consumer.call(m.BasicConsume(word, word))
    cluster.settle()
    for name in "bc":
        cluster.hosts[name].pause(700_000)
    for word in LEVELS:
        client.publish(word, word.encode())
    # A message of several levels is delivered where it need not wait, and confirmed with the others.
    client.publish("key", b"several", exchange="amq.topic")
    cluster.run(0.4)
    assert client.confirmed == [b"none", b"configuration"]
    heard = [(one.consumer_tag, one.body) for one in consumer.deliveries]
    assert sorted(heard) == [
        ("configuration", b"configuration"),
        ("configuration", b"several"),
        ("none", b"none"),
        ("none", b"several"),
    ]
    cluster.until(lambda: len(client.confirmed) == 4)
    cluster.until(lambda: len(consumer.deliveries) == 6)


def test_a_transient_queue_has_level_none_and_an_exclusive_one_is_at_the_root_alone() -> None:
    """A22 of Qpid's tests does not apply: an exclusive queue ends with its connection. A23: an
    exclusive queue that is deleted when unused is not replicated.
    """
    cluster = Cluster()
    client = cluster.client()
    client.call(m.QueueDeclare("transient"))
    client.call(m.QueueDeclare("exclusive", durable=True, exclusive=True))
    client.call(m.QueueDeclare("both", exclusive=True, auto_delete=True))
    cluster.settle()
    assert set(vhost(cluster, "b").queues) == {"transient"}
    cluster.hosts["a"].die()
    cluster.elected("b")
    assert not vhost(cluster, "b").queues


@pytest.mark.parametrize("word", ["some", 1])
def test_an_unknown_level_closes_the_channel_with_406(word: object) -> None:
    """A21 of Qpid's tests."""
    cluster = Cluster()
    declarations: list[m.Method] = [
        m.QueueDeclare("q", durable=True, arguments={"x-replicate": word}),
        m.ExchangeDeclare("x", "topic", durable=True, arguments={"x-replicate": word}),
    ]
    for declaration in declarations:
        client = cluster.client()
        assert client.call(declaration) is None
        assert client.channel_error is not None and client.channel_error.code == 406
        assert "x-replicate" in client.channel_error.text


def test_the_default_of_the_cluster() -> None:
    """A19 of Qpid's tests: with default none nothing survives that does not ask for it."""
    cluster = Cluster(replicate=ReplicationLevel.NONE)
    client = cluster.client()
    client.call(m.QueueDeclare("plain", durable=True))
    client.call(m.QueueDeclare("asked", durable=True, arguments={"x-replicate": "all"}))
    client.confirmed_publish("plain", b"one")
    client.confirmed_publish("asked", b"two")
    cluster.hosts["a"].die()
    cluster.elected("b")
    assert counts(vhost(cluster, "b")) == {"asked": 1}
