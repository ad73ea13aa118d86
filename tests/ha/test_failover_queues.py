"""What queues know of their past when another server becomes the root: consumers and returns."""

from __future__ import annotations

import pytest

from penstock.client.events import Delivered
from penstock.wire.amqp091 import methods_generated as m
from tests.seeds.cluster_doubles import Cluster, SimulatedClient

QUORUM: dict[str, object] = {"x-queue-type": "quorum"}


def queues(cluster: Cluster, name: str) -> set[str]:
    return set(cluster.hosts[name].node.state.vhost("/").queues)


# Queues that are deleted when they are unused.


@pytest.mark.parametrize("is_new_backup", [False, True], ids=["known", "joined later"])
def test_a_new_root_deletes_auto_delete_queues_that_had_consumers(is_new_backup: bool) -> None:
    """A30 and 52 of Qpid's tests: "subscribed auto-delete queues vanish after primary crash,
    unsubscribed stay, incl. ones subscribed after a backup joined".
    """
    cluster = Cluster()
    if is_new_backup:
        cluster.hosts["b"].die()
    client = cluster.client()
    for name in ("used", "unused", "plain"):
        client.call(m.QueueDeclare(name, durable=True, auto_delete=name != "plain"))
        client.confirmed_publish(name, name.encode())
    client.call(m.BasicConsume("used"))
    client.call(m.BasicConsume("plain"))
    if is_new_backup:
        cluster.hosts["b"].revive()
        cluster.elected("a")
    cluster.settle()
    assert queues(cluster, "b") == {"used", "unused", "plain"}
    assert cluster.have_same_definitions()
    cluster.hosts["a"].die()
    cluster.elected()
    cluster.settle()
    for name in "bc":
        assert queues(cluster, name) == {"unused", "plain"}
        assert cluster.hosts[name].bodies("unused") == [b"unused"]


def test_the_root_alone_deletes_a_queue_that_is_not_used_any_more() -> None:
    """A31 of Qpid's tests. A23: replication does not keep an auto-delete queue."""
    cluster = Cluster()
    client = cluster.client()
    client.call(m.QueueDeclare("q", durable=True, auto_delete=True))
    client.call(m.BasicConsume("q", "tag"))
    cluster.settle()
    assert [queues(cluster, name) for name in "abc"] == [{"q"}] * 3
    client.call(m.BasicCancel("tag"))
    cluster.settle()
    assert [queues(cluster, name) for name in "abc"] == [set()] * 3


def test_the_time_until_an_unused_queue_is_deleted_runs_on_the_new_root() -> None:
    """53 of Qpid's tests: time-outs are honoured after a failover. Here they are `x-expires`, and a
    backup does not count.
    """
    cluster = Cluster()
    client = cluster.client()
    expires: dict[str, object] = {"x-expires": 3000}
    client.call(m.QueueDeclare("q", durable=True, auto_delete=True, arguments=expires))
    cluster.settle()
    cluster.hosts["a"].die()
    cluster.elected("b")
    assert queues(cluster, "b") == {"q"}
    cluster.run(3.5)
    assert queues(cluster, "b") == queues(cluster, "c") == set()


def test_a_queue_that_had_a_consumer_is_known_as_such_after_a_restart_of_all() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.call(m.QueueDeclare("q", durable=True, auto_delete=True))
    client.call(m.BasicConsume("q"))
    cluster.settle()
    for host in cluster.hosts.values():
        host.die()
    for host in cluster.hosts.values():
        host.revive()
    cluster.elected()
    assert queues(cluster, "a") == set()


# Deliveries that failed.


def returned(client: SimulatedClient, cluster: Cluster, deliveries: int) -> None:
    """The first message of the queue is got and given back so many times."""
    for _ in range(deliveries):
        last = got(client)
        settle(client, cluster, m.BasicNack(last.delivery_tag, requeue=True))


def settle(client: SimulatedClient, cluster: Cluster, settlement: m.Method) -> None:
    client.tell(settlement)
    # The answer comes after it was read.
    client.call(m.BasicQos())
    cluster.settle()


def got(client: SimulatedClient) -> Delivered:
    answer = client.call(m.BasicGet("q"))
    assert answer is not None and answer.message is not None
    return answer.message


def delivery_count(delivered: Delivered) -> object:
    return (delivered.properties.headers or {}).get("x-delivery-count", 0)


def with_returns(cluster: Cluster, limit: int = -1) -> SimulatedClient:
    """Two messages, the first of which came back twice."""
    client = cluster.client()
    arguments = dict(QUORUM)
    if limit >= 0:
        arguments["x-delivery-limit"] = limit
    client.call(m.QueueDeclare("q", durable=True, arguments=arguments))
    client.confirmed_publish("q", b"one", b"two")
    returned(client, cluster, 2)
    return client


def check_counts(cluster: Cluster) -> None:
    client = cluster.client()
    deliveries = [got(client), got(client)]
    assert [one.body for one in deliveries] == [b"one", b"two"]
    assert [delivery_count(one) for one in deliveries] == [2, 0]
    assert all(one.redelivered for one in deliveries)


def test_counts_continue_when_the_root_was_killed() -> None:
    cluster = Cluster()
    with_returns(cluster)
    assert cluster.have_same_definitions() and cluster.are_equal()
    cluster.hosts["a"].die()
    cluster.elected("b")
    check_counts(cluster)


def test_counts_continue_while_the_message_is_out_with_a_consumer() -> None:
    cluster = Cluster()
    client = with_returns(cluster)
    assert delivery_count(got(client)) == 2
    cluster.settle()
    assert cluster.have_same_definitions() and cluster.are_equal()
    cluster.hosts["a"].die()
    cluster.elected("b")
    check_counts(cluster)


def test_counts_continue_after_a_hand_over_and_back() -> None:
    cluster = Cluster()
    with_returns(cluster)
    for heir in "ba":
        cluster.hand_over(heir)
    check_counts(cluster)


def test_counts_continue_after_a_restart_of_all() -> None:
    cluster = Cluster()
    with_returns(cluster)
    for host in cluster.hosts.values():
        host.die()
    for host in cluster.hosts.values():
        host.revive()
    cluster.elected()
    check_counts(cluster)


@pytest.mark.parametrize("had_messages", [False, True])
def test_counts_continue_at_a_backup_that_has_joined_anew(had_messages: bool) -> None:
    """By SYNC, to a backup with the messages and to one without."""
    cluster = Cluster()
    client = cluster.client()
    client.call(m.QueueDeclare("q", durable=True, arguments=QUORUM))
    if had_messages:
        client.confirmed_publish("q", b"one", b"two")
        cluster.settle()
    # With all of their stores' operations behind them, they need a SYNC.
    cluster.hosts["b"].die()
    cluster.elected("a")
    if not had_messages:
        client.confirmed_publish("q", b"one", b"two")
    returned(client, cluster, 2)
    cluster.hosts["a"].die()
    cluster.hosts["a"].revive()
    cluster.until(lambda: bool(cluster.roots()))
    cluster.hosts["b"].revive()
    root = cluster.elected().name
    cluster.settle()
    assert cluster.have_same_definitions() and cluster.are_equal()
    if root != "b":
        cluster.hand_over("b")
    check_counts(cluster)


def test_a_limit_of_deliveries_that_began_with_the_last_root_ends_with_this_one() -> None:
    """Never more deliveries than the limit allows, and one dead letter."""
    cluster = Cluster()
    client = cluster.client()
    client.call(m.QueueDeclare("dead", durable=True))
    arguments: dict[str, object] = {
        **QUORUM,
        "x-delivery-limit": 2,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
    }
    client.call(m.QueueDeclare("q", durable=True, arguments=arguments))
    client.confirmed_publish("q", b"one")
    returned(client, cluster, 2)
    assert cluster.hosts["a"].bodies("q") == [b"one"]
    cluster.hosts["a"].die()
    cluster.elected("b")
    returned(cluster.client(), cluster, 1)
    for name in cluster.up():
        assert cluster.hosts[name].bodies("q") == []
        assert cluster.hosts[name].bodies("dead") == [b"one"]


def test_a_message_that_was_acknowledged_is_not_counted_any_more() -> None:
    cluster = Cluster()
    client = with_returns(cluster)
    settle(client, cluster, m.BasicAck(got(client).delivery_tag))
    for name in "abc":
        assert not any(b"NoteReturns" in text for text in cluster.definitions(name))
    assert cluster.are_equal()
