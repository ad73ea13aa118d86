"""Seed 001: the classes of its overview, as far as other tests do not show them at work."""

from __future__ import annotations

from penstock.broker.store.definition_records import Change
from penstock.broker.topology import AddVhost, DeclareQueue, DeleteQueue
from penstock.ha.broker_replicator import BrokerReplicator
from penstock.ha.messages import JOIN, SYNC
from penstock.ha.queue_replicator import QueueReplicator
from penstock.ha.replica_queues import ReplicaQueues
from penstock.node.ha_status import ha_status, queue_statuses
from penstock.wire.amqp091 import methods_generated as m
from tests.ha.replica_doubles import Member
from tests.seeds.cluster_doubles import Cluster


def with_queues(cluster: Cluster, *names: str) -> None:
    client = cluster.client()
    for name in names:
        client.call(m.QueueDeclare(name, durable=True))
    cluster.settle()


def test_replication_is_shown_and_commanded_by_management() -> None:
    """Line 20: "It is responsible for implementing QMF management functions." Here `penstock ha status`,
    `queues` and `promote`, and /api/ha.
    """
    cluster = Cluster()
    cluster.elected("a")
    found = {name: ha_status(host.member, host.now()) for name, host in cluster.hosts.items()}
    assert {name: status.role for name, status in found.items()} == {
        "a": "primary",
        "b": "backup",
        "c": "backup",
    }
    assert {one.name for one in found["a"].backups} == {"b", "c"}
    cluster.hand_over("b")
    host = cluster.hosts["b"]
    assert ha_status(host.member, host.now()).role == "primary"


def test_only_what_is_configured_for_it_is_replicated() -> None:
    """Line 24: "It uses a ReplicationTest to check if an object is configured for replication." The level
    is decided where the object is declared, and goes with its definition.
    """
    cluster = Cluster()
    client = cluster.client()
    for level in ("all", "configuration"):
        arguments: dict[str, object] = {"x-replicate": level}
        client.call(m.QueueDeclare(level, durable=True, arguments=arguments))
        client.confirmed_publish(level, level.encode())
    cluster.settle()
    assert cluster.hosts["b"].bodies("all") == [b"all"]
    backup = cluster.hosts["b"].node.state.vhost("/")
    assert backup.queues["configuration"].message_count == 0


def test_a_queue_that_is_made_on_a_backup_gets_its_replicator() -> None:
    """Line 28: "For replicated queues the BrokerReplicator also creates a QueueReplicator." And drops it with the queue."""
    backup = Member()
    queues = ReplicaQueues(backup.store)
    definitions = BrokerReplicator(backup.state, queues)
    definitions.change(Change(None, AddVhost("/"), 0), 0)
    definitions.change(Change("/", DeclareQueue("q", durable=True), 7), 0)
    assert isinstance(queues.by_number[7], QueueReplicator)
    definitions.change(Change("/", DeleteQueue("q"), 0), 0)
    assert queues.by_number == {}


def test_a_backup_that_joins_makes_the_primary_walk_the_queues_that_it_lacks() -> None:
    """Line 28: "The QueueReplicator subscribes to the primary queue with arguments to tell the primary to
    use a ReplicatingSubscription." Here one JOIN with the snapshots of all queues does it for all of them.
    """
    cluster = Cluster()
    with_queues(cluster, "p", "q")
    cluster.hosts["c"].die()
    cluster.hand_over("b")
    client = cluster.client("b")
    for name in ("p", "q"):
        client.confirmed_publish(name, *[b"%04d" % number * 25_000 for number in range(20)])
    cluster.hosts["c"].revive()
    lacking: dict[str, int] = {}

    def is_walked() -> bool:
        primary = cluster.hosts["b"].member.primary
        assert primary is not None
        for backup in primary.backups():
            for queue in cluster.hosts["b"].node.state.vhost("/").queues.values():
                missing = backup.missing_count(queue.number)
                lacking[queue.name] = max(lacking.get(queue.name, 0), missing)
        return cluster.hosts["b"].record.in_sync == ("a", "b", "c")

    cluster.until(is_walked)
    assert lacking["p"] > 0 and lacking["q"] > 0
    said = [message.kind for message in cluster.hosts["c"].messages()]
    assert said.count(JOIN) >= 1
    assert SYNC in [message.kind for message in cluster.hosts["b"].messages()]
    cluster.settle()
    assert cluster.are_equal()


def test_every_pair_of_queue_and_backup_has_its_guard() -> None:
    """Line 37: "For each (queue,backup) pair, the Primary creates a ReplicatingSubscription and a
    QueueGuard." The guard is derived from positions, the subscription is there while the backup catches up.
    """
    cluster = Cluster()
    with_queues(cluster, "p", "q")
    root = cluster.hosts["a"]
    cluster.hosts["b"].disk.hang(700_000)
    client = cluster.client("a")
    client.publish("p", b"one")
    cluster.until(lambda: cluster.member_status("a", "c").lag_operations == 0)
    cluster.run(0.2)
    delayed = {
        (queue.name, row.server): row.delayed
        for queue in root.node.state.vhost("/").queues.values()
        for row in queue_statuses(root.member, "/", queue)
        if row.server != "a"
    }
    assert delayed == {("p", "b"): 1, ("p", "c"): 0, ("q", "b"): 0, ("q", "c"): 0}
