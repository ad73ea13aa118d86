"""Items of Qpid's acceptance lists that no other test shows; docs/design/ha.md has all of them.

Simulated servers with the shipped node.
"""

from __future__ import annotations

import pytest

from penstock.broker.topology import SetVhostLimits
from penstock.client.events import Confirmed
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.amqp091.content import BasicProperties
from tests.seeds.cluster_doubles import Cluster, SimulatedClient

Arguments = dict[str, object]


def declared(cluster: Cluster, name: str = "q", **arguments: object) -> SimulatedClient:
    client = cluster.client()
    named: Arguments = {key.replace("_", "-"): value for key, value in arguments.items()}
    client.call(m.QueueDeclare(name, durable=True, arguments=named))
    cluster.settle()
    return client


def bodies(cluster: Cluster, queue: str = "q") -> list[list[bytes]]:
    """On every server that is up."""
    return [cluster.hosts[name].bodies(queue) for name in cluster.up()]


def transacting(cluster: Cluster) -> SimulatedClient:
    client = cluster.client(confirms=False)
    client.call(m.TxSelect())
    return client


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(1, count + 1)]


def queue_names(cluster: Cluster, name: str) -> set[str]:
    return set(cluster.hosts[name].node.state.vhost("/").queues)


# Messages.


def test_qpid_a2_backups_that_join_while_messages_flow_have_all_of_them_in_order() -> None:
    """A2: test_sync."""
    cluster = Cluster()
    client = declared(cluster)
    cluster.hosts["c"].die()
    for number, body in enumerate(numbered(60)):
        client.publish("q", body)
        cluster.run(0.05)
        if number == 20:
            cluster.hosts["c"].revive()
    cluster.until(lambda: len(client.confirmed) == 60)
    cluster.elected("a")
    cluster.settle()
    assert bodies(cluster) == [numbered(60)] * 3


def test_qpid_a3_the_right_ones_are_left_on_the_backups() -> None:
    """A3: test_send_receive."""
    cluster = Cluster()
    client = declared(cluster)
    client.confirmed_publish("q", *numbered(1000))
    consumer = cluster.client()
    tag = consumer.consume("q", 1000)[989].delivery_tag
    consumer.tell(m.BasicAck(tag, multiple=True))
    cluster.run(0.5)
    consumer.close()
    cluster.run(0.5)
    cluster.settle()
    assert bodies(cluster) == [numbered(1000)[990:]] * 3


def test_qpid_a13_a17_a_queue_with_a_limit_keeps_the_same_everywhere() -> None:
    """A13: test_ring. A17: test_priority_ring."""
    cluster = Cluster()
    for name, arguments in (("q", {}), ("p", {"x_max_priority": 3})):
        client = declared(cluster, name, x_max_length=4, **arguments)
        for number, body in enumerate(numbered(12)):
            client.publish_with(name, body, BasicProperties(delivery_mode=2, priority=number % 4))
        cluster.run(1)
        cluster.settle()
        first, *others = [set(one) for one in bodies(cluster, name)]
        assert len(first) == 4
        assert others == [first, first]
    assert bodies(cluster)[0] == numbered(12)[8:]


def test_qpid_a14_what_a_full_queue_refuses_is_nowhere() -> None:
    """A14: test_reject."""
    cluster = Cluster()
    client = declared(cluster, x_max_length=3, x_overflow="reject-publish")
    client.publish("q", *numbered(5))

    def answered() -> int:
        return sum(len(one.settled) for one in client.events if isinstance(one, Confirmed))

    cluster.until(lambda: answered() == 5)
    cluster.settle()
    assert bodies(cluster) == [numbered(3)] * 3
    assert client.confirmed == numbered(3)


def test_qpid_a15_a_new_root_delivers_by_priority() -> None:
    """A15: test_priority."""
    cluster = Cluster()
    client = declared(cluster, x_max_priority=5)
    for body, priority in ((b"low", 1), (b"high", 5), (b"middle", 3)):
        client.publish_with("q", body, BasicProperties(delivery_mode=2, priority=priority))
    cluster.until(lambda: len(client.confirmed) == 3)
    cluster.hosts["a"].die()
    again = cluster.client(cluster.elected("b").name)
    assert [one.body for one in again.consume("q", 3)] == [b"high", b"middle", b"low"]


@pytest.mark.parametrize("is_live", [True, False], ids=["live", "catch-up"])
def test_qpid_a18_what_consumers_hold_is_on_the_backups(is_live: bool) -> None:
    """A18: test_backup_acquired."""
    cluster = Cluster()
    client = declared(cluster)
    if not is_live:
        cluster.hosts["c"].die()
        cluster.hand_over("b")
        client = cluster.client("b")
    client.confirmed_publish("q", *numbered(5))
    holder = cluster.client(cluster.elected().name)
    holder.consume("q", 5)
    if not is_live:
        cluster.hosts["c"].revive()
        cluster.elected("b")
    cluster.settle()
    assert cluster.hosts["c"].bodies("q") == numbered(5)
    cluster.hosts[cluster.roots()[0]].die()
    again = cluster.client(cluster.elected().name)
    found = again.consume("q", 5)
    assert [(one.body, one.redelivered) for one in found] == [(body, True) for body in numbered(5)]


def test_qpid_a32_messages_that_expire_while_they_are_replicated_do_no_harm() -> None:
    """A32: test_expired."""
    cluster = Cluster()
    client = declared(cluster, x_message_ttl=20)
    for body in numbered(30):
        client.publish("q", body)
        cluster.run(0.01)
    cluster.until(lambda: len(client.confirmed) == 30)
    cluster.until(lambda: not any(bodies(cluster)))
    cluster.elected("a")
    assert cluster.are_equal()


# Definitions.


def test_qpid_a24_every_server_knows_the_same_members() -> None:
    """A24: test_broker_info."""
    cluster = Cluster()
    cluster.elected()
    first, *others = [
        [(one.name, one.address, one.in_sync) for one in cluster.status(name).members]
        for name in cluster.up()
    ]
    assert [name for name, _, _ in first] == ["a", "b", "c"]
    assert others == [first, first]


def test_qpid_a26_alternate_exchanges_work_after_a_failover_and_on_new_backups() -> None:
    """A26: test_alternate_exchange, with so many exchanges that definitions travel in parts."""
    cluster = Cluster()
    client = declared(cluster)
    client.call(m.ExchangeDeclare("spare", "fanout", durable=True))
    client.call(m.QueueBind("q", "spare"))
    alternate: Arguments = {"alternate-exchange": "spare"}
    client.call(m.ExchangeDeclare("main", "direct", durable=True, arguments=alternate))
    for number in range(200):
        client.call(m.ExchangeDeclare(f"extra{number}", "direct", durable=True))
    cluster.hosts["c"].die()
    cluster.hand_over("b")
    cluster.hosts["c"].revive()
    cluster.elected("b")
    cluster.settle()
    assert cluster.have_same_definitions()
    for number in range(2):
        root = cluster.elected()
        cluster.client(root.name).confirmed_publish("nowhere", b"%d" % number, exchange="main")
        cluster.settle()
        assert cluster.hosts["c"].bodies("q") == [b"%d" % one for one in range(number + 1)]
        if number == 0:
            cluster.hand_over("c")


def test_qpid_a28_a_backup_drops_what_its_root_does_not_have() -> None:
    """A28: test_delete_missing_response."""
    cluster = Cluster()
    client = declared(cluster)
    cluster.isolate("a")
    client.ask(m.QueueDeclare("surplus", durable=True))
    client.ask(m.ExchangeDeclare("surplus", "direct", durable=True))
    cluster.until(lambda: "surplus" in queue_names(cluster, "a"))
    cluster.run(0.2)
    cluster.die_silently("a")
    cluster.network.unite()
    cluster.elected("b")
    cluster.hosts["a"].revive()
    assert "surplus" in queue_names(cluster, "a")
    cluster.elected("b")
    cluster.settle()
    assert queue_names(cluster, "a") == {"q"}
    assert cluster.have_same_definitions()


def test_qpid_a29_a34_a_queue_is_deleted_and_declared_again_by_the_new_root() -> None:
    """A29: test_delete_qpid_4285. A34: test_resource_limit_bug. A38: test_max_queues."""
    cluster = Cluster()
    root = cluster.elected("a")
    declared(cluster).confirmed_publish("q", b"old")
    root.node.state.vhost("/").apply(SetVhostLimits(max_queues=1), root.now())
    cluster.settle()
    cluster.hosts["a"].die()
    client = cluster.client(cluster.elected("b").name)
    client.call(m.QueueDelete("q"))
    cluster.settle()
    assert not queue_names(cluster, "b") and not queue_names(cluster, "c")
    assert client.call(m.QueueDeclare("q", durable=True)) is not None
    cluster.settle()
    assert bodies(cluster) == [[], []]
    # One more than the limit is refused, and nobody is harmed.
    assert client.call(m.QueueDeclare("r", durable=True)) is None
    assert client.channel_error is not None
    again = cluster.client("b")
    again.confirmed_publish("q", b"new")
    cluster.settle()
    assert bodies(cluster) == [[b"new"]] * 2


def test_qpid_a33_a_queue_that_was_made_anew_replaces_the_one_that_a_backup_knew() -> None:
    """A33: test_missed_recreate."""
    cluster = Cluster()
    declared(cluster).confirmed_publish("q", b"old")
    cluster.settle()
    cluster.hosts["c"].die()
    client = cluster.client("a")
    client.call(m.QueueDelete("q"))
    client.call(m.QueueDeclare("q", durable=True, arguments={"x-max-priority": 3}))
    client.confirmed_publish("q", b"new")
    cluster.hand_over("b")
    cluster.hosts["c"].revive()
    cluster.elected("b")
    cluster.settle()
    assert bodies(cluster) == [[b"new"]] * 3
    assert cluster.have_same_definitions() and cluster.are_equal()


def test_qpid_a37_59_clients_that_race_for_a_queue_leave_the_same_everywhere() -> None:
    """A37: test_qmf_order. 59: stale_response: 100 times created and deleted."""
    cluster = Cluster()
    clients = [cluster.client(), cluster.client()]
    for number in range(100):
        client = clients[number % 2]
        client.ask(m.QueueDeclare("q", durable=True, auto_delete=True))
        client.publish("q", b"%d" % number)
        clients[(number + 1) % 2].ask(m.QueueDelete("q"))
        cluster.run(0.01)
    cluster.run(1)
    cluster.settle()
    assert not any(client.is_ended or client.channel_error for client in clients)
    assert cluster.have_same_definitions() and cluster.are_equal()
    assert cluster.up() == ["a", "b", "c"]


def test_qpid_58_to_declare_again_what_is_there_changes_nothing() -> None:
    """58: redeclare_exchange."""
    cluster = Cluster()
    client = declared(cluster)
    client.call(m.ExchangeDeclare("x", "direct", durable=True))
    cluster.settle()
    before = cluster.hosts["b"].replica.syn()
    client.call(m.ExchangeDeclare("x", "direct", durable=True))
    client.call(m.QueueDeclare("q", durable=True))
    cluster.settle()
    assert cluster.hosts["b"].replica.syn() == before


# Transactions.


def test_qpid_a36_what_transactions_left_is_on_all_servers() -> None:
    """A36: test_tx_send_receive: 1000 sent and 990 received, by tens."""
    cluster = Cluster()
    declared(cluster)
    sender, receiver = transacting(cluster), transacting(cluster)
    for start in range(0, 1000, 10):
        sender.publish("q", *numbered(1000)[start : start + 10])
        assert sender.call(m.TxCommit()) is not None
    found = receiver.consume("q", 1000)
    for end in range(9, 990, 10):
        receiver.tell(m.BasicAck(found[end].delivery_tag, multiple=True))
        assert receiver.call(m.TxCommit()) is not None
    receiver.close()
    cluster.run(0.5)
    cluster.settle()
    assert bodies(cluster) == [numbered(1000)[990:]] * 3


def test_qpid_a46_61_a_rollback_leaves_nothing_and_others_may_take_what_was_committed() -> None:
    """A46: test_tx_simple_rollback. 61, 62: tx_enq_notx_deq."""
    cluster = Cluster()
    declared(cluster)
    client = transacting(cluster)
    client.publish("q", b"rolled back")
    client.call(m.TxRollback())
    cluster.settle()
    assert bodies(cluster) == [[]] * 3
    client.publish("q", b"one", b"two")
    assert client.call(m.TxCommit()) is not None
    other = cluster.client()
    other.tell(m.BasicAck(other.consume("q", 2)[0].delivery_tag))
    cluster.run(0.2)
    cluster.settle()
    assert bodies(cluster) == [[b"two"]] * 3


def test_qpid_a48_backups_leave_and_join_in_the_middle_of_a_transaction() -> None:
    """A48: test_tx_join_leave."""
    cluster = Cluster()
    declared(cluster)
    client = transacting(cluster)
    client.publish("q", b"one")
    cluster.hosts["c"].die()
    cluster.until(lambda: cluster.hosts["a"].record.in_sync == ("a", "b"))
    client.publish("q", b"two")
    assert client.call(m.TxCommit()) is not None
    client.publish("q", b"three")
    cluster.hosts["c"].revive()
    cluster.elected("a")
    client.publish("q", b"four")
    assert client.call(m.TxCommit()) is not None
    cluster.settle()
    assert bodies(cluster) == [[b"one", b"two", b"three", b"four"]] * 3


def test_qpid_a49_many_commits_at_once_do_not_wait_for_one_another() -> None:
    """A49: test_tx_block_threads."""
    cluster = Cluster()
    declared(cluster)
    clients = [transacting(cluster) for _ in range(10)]
    for number, client in enumerate(clients):
        client.publish("q", b"%d" % number)
        client.ask(m.TxCommit())
    cluster.until(lambda: all(client.replies(m.TxCommitOk) == 1 for client in clients), 2)
    cluster.settle()
    assert [sorted(one) for one in bodies(cluster)] == [[b"%d" % one for one in range(10)]] * 3


def test_qpid_63_a_cluster_of_one_commits_and_rolls_back() -> None:
    """63: tx_no_backups."""
    cluster = Cluster("a")
    declared(cluster)
    client = transacting(cluster)
    client.publish("q", b"one")
    assert client.call(m.TxCommit()) is not None
    client.publish("q", b"two")
    assert client.call(m.TxRollback()) is not None
    cluster.settle()
    assert bodies(cluster) == [[b"one"]]
