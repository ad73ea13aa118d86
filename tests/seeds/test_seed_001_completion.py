"""Seeds 001 and 003: what a primary completes, when, and what a backup has then.

Each test quotes lines of seed 001 and says their numbers; where seed 003 says the same, its line is given as
003:8. The servers are simulated; the node, its links and its store are the shipped ones. Where we do
otherwise, the test's name and docstring say what, and docs/design/cluster.md says why. Joining, fail-over
and readiness are in test_seed_001_failover.py.
"""

from __future__ import annotations

import pytest

from penstock.formats.replication_id import count_of, epoch_of
from penstock.ha.messages import ACK, OP
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.amqp091.content import BasicProperties
from tests.seeds.cluster_doubles import Cluster, SimulatedClient

# Shorter than it takes to drop a member from the in-sync set, and to let a lease end.
HANG_US = 700_000


def with_queue(cluster: Cluster, queue: str = "q") -> SimulatedClient:
    client = cluster.client()
    client.call(m.QueueDeclare(queue, durable=True))
    cluster.settle()
    return client


# Roles.


def test_a_server_has_the_role_of_a_primary_or_of_a_backup() -> None:
    """Line 19: "HaBroker is the main container for HA code, it holds a Role which can be Primary or
    Backup." Line 22: "Backup implements the back-up Role." Line 33: "Primary implements the primary
    Role."
    """
    cluster = Cluster()
    cluster.elected("a")
    for root, backups in (("a", "bc"), ("b", "ac")):
        member = cluster.hosts[root].member
        assert member.primary is not None and not member.backup.is_following
        for name in backups:
            member = cluster.hosts[name].member
            assert member.primary is None and member.backup.is_following
        if root == "a":
            cluster.hand_over("b")


def test_a_backup_hears_of_everything_that_is_created_and_deleted() -> None:
    """Line 22: "It holds a BrokerReplicator which subscribes to management events on the primary e.g.
    create/delete queue/exchange/binding." Line 25: "For replicated objects it creates corresponding
    broker::Queue, broker::Exchange etc. on the local broker." Here one stream carries them, in order.
    """
    cluster = Cluster()
    client = cluster.client()
    backup = cluster.hosts["c"].node.state.vhost("/")
    client.call(m.ExchangeDeclare("x", "fanout", durable=True))
    client.call(m.QueueDeclare("q", durable=True))
    client.call(m.QueueBind("q", "x"))
    cluster.settle()
    assert "x" in backup.exchanges and "q" in backup.queues
    created = cluster.definitions("c")
    client.call(m.QueueUnbind("q", "x"))
    cluster.settle()
    assert len(cluster.definitions("c")) == len(created) - 1
    client.call(m.QueueDelete("q"))
    client.call(m.ExchangeDelete("x"))
    cluster.settle()
    assert "x" not in backup.exchanges and "q" not in backup.queues


def test_each_backup_that_connects_is_tracked() -> None:
    """Line 34: "Each backup that connects is tracked by a RemoteBackup." (003:25)"""
    cluster = Cluster()
    client = with_queue(cluster)
    assert [cluster.member_status("a", name).lag_operations for name in "bc"] == [0, 0]
    cluster.hosts["c"].disk.hang(HANG_US)
    client.publish("q", b"one")
    cluster.until(lambda: cluster.member_status("a", "b").lag_operations == 0)
    cluster.run(0.2)
    assert cluster.member_status("a", "c").lag_operations > 0
    assert cluster.member_status("a", "c").lag_bytes > 0
    cluster.settle()
    assert cluster.member_status("a", "c").lag_operations == 0


# Replication ids.


def test_ids_are_set_before_a_message_is_enqueued_and_are_the_same_everywhere() -> None:
    """Line 33: "For each replicated queue it creates an IdSetter to set replication IDs on messages
    delivered to the queue." Line 57: "Replication IDs are sequence numbers assigned to a message
    *before* it is enqueued." Line 90: "IdSetter sets a replication ID." (003:8) The id is there while the
    message still waits for its commit.
    """
    cluster = Cluster()
    client = with_queue(cluster)
    for name in "bc":
        cluster.hosts[name].disk.hang(HANG_US)
    client.publish("q", b"one", b"two", b"three")
    cluster.run(0.3)
    assert client.confirmed == []
    before = cluster.hosts["a"].positions("q")
    assert [count_of(position) for position in before] == [1, 2, 3]
    cluster.settle()
    for host in cluster.hosts.values():
        assert host.positions("q") == before


def test_ids_identify_messages_to_dequeue_on_a_backup() -> None:
    """Line 59: "identify messages to dequeue on a backup." (003:15) Line 103: "ReplicatingSubscription
    sends dequeued message ID to backup QueueReplicator." Also out of order.
    """
    cluster = Cluster()
    client = with_queue(cluster)
    client.confirmed_publish("q", b"one", b"two", b"three")
    middle = client.consume("q", 3)[1]
    client.tell(m.BasicAck(middle.delivery_tag))
    cluster.run(0.2)
    cluster.settle()
    for host in cluster.hosts.values():
        assert host.bodies("q") == [b"one", b"three"]


def test_ids_of_two_roots_never_collide() -> None:
    """Line 63: "Aside: Originally the queue position number was used as the ID, but that was
    insufficient for two reasons:". There is a third one: after a fail-over two messages would have the
    same position. Here a position consists of an epoch and a count. (003:9)
    """
    cluster = Cluster()
    client = with_queue(cluster)
    client.confirmed_publish("q", b"one")
    # It reaches the disk of the old root, and nobody else.
    cluster.isolate("a")
    client.publish("q", b"lost")
    cluster.run(0.3)
    lost = cluster.hosts["a"].positions("q")[1]
    cluster.die_silently("a")
    cluster.network.unite()
    client = cluster.client(cluster.elected("b").name)
    client.confirmed_publish("q", b"two")
    positions = cluster.hosts["b"].positions("q")
    assert [epoch_of(position) for position in positions] == [1, 2]
    assert lost not in positions


def test_messages_of_an_open_transaction_need_no_id() -> None:
    """Line 65: "We sometimes need to identify messages that are not yet enqueued, for example messages
    in an open transaction." (003:11) Here they are nowhere but on their channel, and a commit is one
    operation: backups get all of it or nothing.
    """
    cluster = Cluster()
    with_queue(cluster)
    client = cluster.client(confirms=False)
    client.call(m.TxSelect())
    client.publish("q", b"one", b"two")
    cluster.run(0.5)
    assert cluster.hosts["a"].positions("q") == []
    k = cluster.hosts["b"].replica.syn()[1]
    assert client.call(m.TxCommit()) is not None
    cluster.settle()
    assert cluster.hosts["b"].bodies("q") == [b"one", b"two"]
    assert cluster.hosts["b"].replica.syn()[1] == k + 1


def test_every_server_has_the_sequence_of_the_root() -> None:
    """Line 66: "We don't want to require maintaining identical message sequences on every broker e.g. so
    transactions can be committed independently by each broker." (003:12) Here we do: the order is the
    root's, and nobody commits independently.
    """
    cluster = Cluster()
    clients = [with_queue(cluster), cluster.client(), cluster.client(confirms=False)]
    clients[2].call(m.TxSelect())
    for number in range(20):
        for at, client in enumerate(clients):
            client.publish("q", b"%d of %d" % (number, at))
    assert clients[2].call(m.TxCommit()) is not None
    cluster.until(lambda: all(len(client.confirmed) == 20 for client in clients[:2]))
    cluster.settle()
    first, *others = [host.bodies("q") for host in cluster.hosts.values()]
    assert len(first) == 60
    assert others == [first, first]


# At least once, and delayed completion.


@pytest.mark.parametrize("seed_of_death", range(6))
def test_a_message_that_was_acknowledged_is_not_lost(seed_of_death: int) -> None:
    """Line 70: "We guarantee no message loss, aka at-least-once delivery." Line 70: "Any message received
    _and acknowledged_ by the primary will not be lost." Whenever the root dies.
    """
    cluster = Cluster()
    client = with_queue(cluster)
    for number in range(30):
        client.publish("q", b"%d" % number)
        cluster.run(0.002 * seed_of_death)
    cluster.until(lambda: len(client.confirmed) > 0)
    cluster.hosts["a"].die()
    confirmed = client.confirmed
    cluster.elected("b")
    cluster.settle()
    for name in "bc":
        assert set(confirmed) <= set(cluster.hosts[name].bodies("q"))


def test_clients_keep_and_send_again_what_was_not_acknowledged() -> None:
    """Line 71: "Clients must keep sent messages until they are acknowledged." Line 72: "In a failure the
    client re-connects and re-sends all unacknowledged (or "in-doubt") messages." Our client says which.
    """
    cluster = Cluster()
    client = with_queue(cluster)
    client.confirmed_publish("q", b"sure")
    for name in "bc":
        cluster.hosts[name].disk.hang(HANG_US)
    client.publish("q", b"in doubt")
    cluster.run(0.1)
    cluster.hosts["a"].die()
    cluster.until(lambda: client.is_ended)
    assert client.in_doubt == [b"in doubt"]
    again = cluster.client(cluster.elected("b").name)
    again.confirmed_publish("q", *[body for body in client.in_doubt if isinstance(body, bytes)])
    assert {b"sure", b"in doubt"} <= set(cluster.hosts["b"].bodies("q"))


def test_a_message_in_doubt_may_be_there_twice_when_it_is_sent_again() -> None:
    """Line 75: "This ensures no messages are lost, but it is possible for in-doubt messages to be
    duplicated if the broker did receive them but failed before sending the acknowledgment."
    """
    cluster = Cluster()
    client = with_queue(cluster)
    # Backups write it, and their acknowledgements do not arrive.
    for name in "bc":
        cluster.network.divide(name, "a", cluster.clock.microseconds + 60_000_000)
    client.publish("q", b"in doubt")
    cluster.until(lambda: cluster.hosts["b"].bodies("q") == [b"in doubt"])
    assert client.confirmed == []
    cluster.hosts["a"].die()
    again = cluster.client(cluster.elected("b").name)
    again.confirmed_publish("q", b"in doubt")
    assert cluster.hosts["b"].bodies("q") == [b"in doubt", b"in doubt"]


@pytest.mark.parametrize("slow", ["b", "c"])
def test_nothing_completes_before_all_backups_have_acknowledged(slow: str) -> None:
    """Line 38: "The QueueGuard delays completion of messages delivered to the queue until they are
    replicated to and acknowledged by the backup." Line 79: "We implement the broker's side of the bargain
    using _delayed completion_." Line 79: "When the primary receives a message it does not complete
    (acknowledge) the message until the message is replicated to and acknowledged by all the backups."
    Line 93: "QueueGuard delays completion (increments completion count)." Line 99:
    "ReplicatingSubscription completes (decrements completion count)." (003:31, 003:42, 003:44, 003:50)
    """
    cluster = Cluster()
    client = with_queue(cluster)
    cluster.hosts[slow].disk.hang(HANG_US)
    client.publish("q", b"one")
    cluster.run(HANG_US / 1_500_000)
    # Everybody else has it on disk, and the slow one has it in memory.
    assert all(host.bodies("q") == [b"one"] for host in cluster.hosts.values())
    assert client.confirmed == []
    cluster.until(lambda: client.confirmed == [b"one"], 1)


@pytest.mark.parametrize("slow", ["a", "b"])
def test_completion_includes_the_disk_of_every_server(slow: str) -> None:
    """Line 81: "In the case of persistent messages, that includes writing the message to persistent
    store." Here in the case of all messages of replicated queues, and on the root as well.
    """
    cluster = Cluster()
    client = with_queue(cluster)
    for delivery_mode in (2, 1):
        body = b"mode %d" % delivery_mode
        cluster.hosts[slow].disk.hang(HANG_US)
        properties = BasicProperties(delivery_mode=delivery_mode)
        client.publish_with("q", body, properties)
        cluster.run(HANG_US / 1_500_000)
        assert body not in client.confirmed
        cluster.run(1)
        assert body in client.confirmed
    for host in cluster.hosts.values():
        host.lose_power()
        host.is_dead = True
    for host in cluster.hosts.values():
        host.revive()
    cluster.elected()
    assert cluster.hosts["c"].bodies("q") == [b"mode 2", b"mode 1"]


def test_a_backup_that_is_gone_is_waited_for_until_the_record_says_otherwise() -> None:
    """Line 79: "When the primary receives a message it does not complete (acknowledge) the message until
    the message is replicated to and acknowledged by all the backups." All that the record names as in
    sync, connected or not: else an isolated root would confirm with one copy.
    """
    cluster = Cluster()
    client = with_queue(cluster)
    cluster.die_silently("c")
    client.publish("q", b"one")
    cluster.until(lambda: client.confirmed == [b"one"])
    assert cluster.hosts["b"].record.in_sync == ("a", "b")
    # A second one may not leave: two of three must have everything.
    cluster.die_silently("b")
    client.publish("q", b"two")
    cluster.until(lambda: client.is_ended)
    assert client.confirmed == [b"one"]
    assert cluster.hosts["a"].record.in_sync == ("a", "b")


def test_a_declare_waits_like_a_publish() -> None:
    """Line 79: "We implement the broker's side of the bargain using _delayed completion_." Definitions
    are as durable as messages.
    """
    cluster = Cluster()
    client = cluster.client()
    cluster.hosts["c"].disk.hang(HANG_US)
    client.ask(m.QueueDeclare("q", durable=True))
    cluster.run(HANG_US / 1_500_000)
    assert client.replies(m.QueueDeclareOk) == 0
    cluster.until(lambda: client.replies(m.QueueDeclareOk) == 1, 1)
    assert "q" in cluster.hosts["c"].node.state.vhost("/").queues


# The life of a message.


def test_a_message_is_sent_to_the_backups_while_the_root_still_writes_it() -> None:
    """Line 96: "ReplicatingSubscription sends message to backup QueueReplicator" (003:43, 003:49, 003:51)."""
    cluster = Cluster()
    client = with_queue(cluster)
    cluster.hosts["a"].disk.hang(HANG_US)
    client.publish("q", b"one")
    cluster.until(
        lambda: all(cluster.hosts[name].bodies("q") == [b"one"] for name in "bc"),
        HANG_US / 1_500_000,
    )
    assert not cluster.hosts["a"].node.is_all_durable()


def test_a_message_is_delivered_when_it_is_committed_and_not_before() -> None:
    """Line 98: "Acknowledge: Received from backup QueueReplicator." A consumer that saw a message
    earlier could see it again after a fail-over, as if for the first time, or never again.
    """
    cluster = Cluster()
    client = with_queue(cluster)
    consumer = cluster.client()
    consumer.call(m.BasicConsume("q", "tag"))
    cluster.hosts["b"].disk.hang(HANG_US)
    client.publish("q", b"one")
    cluster.run(HANG_US / 1_500_000)
    assert consumer.deliveries == []
    empty = client.call(m.BasicGet("q"))
    assert empty is not None and isinstance(empty.method, m.BasicGetEmpty)
    cluster.until(lambda: [one.body for one in consumer.deliveries] == [b"one"], 1)
    assert not consumer.deliveries[0].redelivered


def test_a_dequeue_goes_through_the_stream_behind_its_enqueue() -> None:
    """Line 102: "QueueGuard completes if not already completed by ReplicatingSubscription." Here a
    message that is dequeued is waited for all the same: both parts go through the stream, in order, and
    so a message that was consumed does not come back. (003:45, 003:52)
    """
    cluster = Cluster()
    client = with_queue(cluster)
    client.confirmed_publish("q", b"one", b"two")
    cluster.hosts["c"].disk.hang(HANG_US)
    # A purge dequeues; its answer waits for the slow backup too.
    client.ask(m.QueuePurge("q"))
    cluster.run(HANG_US / 1_500_000)
    assert client.replies(m.QueuePurgeOk) == 0
    cluster.until(lambda: client.replies(m.QueuePurgeOk) == 1, 1)
    cluster.hosts["a"].die()
    cluster.elected("b")
    assert [cluster.hosts[name].bodies("q") for name in "bc"] == [[], []]


def test_an_acknowledgement_of_a_consumer_that_is_committed_is_final() -> None:
    """Line 101: "Dequeue: Removed from queue"."""
    cluster = Cluster()
    client = with_queue(cluster)
    client.confirmed_publish("q", b"one", b"two")
    first = client.consume("q", 2)[0]
    client.tell(m.BasicAck(first.delivery_tag))
    cluster.run(0.2)
    cluster.settle()
    cluster.hosts["a"].die()
    again = cluster.client(cluster.elected("b").name)
    [delivery] = again.consume("q", 1)
    cluster.run(1)
    assert [one.body for one in again.deliveries] == [b"two"]
    assert delivery.redelivered


def test_operations_carry_the_ids_of_what_came_and_of_what_left() -> None:
    """Line 107: "replication IDs of messages as they are replicated." Line 108: "replication IDs of
    messages that have been dequeued on the primary." (003:43) Acknowledged is the last operation.
    """
    cluster = Cluster()
    client = with_queue(cluster)
    epoch, before = cluster.hosts["b"].replica.syn()
    client.confirmed_publish("q", b"one")
    client.call(m.QueuePurge("q"))
    cluster.settle()
    assert cluster.hosts["b"].replica.syn() == (epoch, before + 2)
    for name in "bc":
        kinds = {message.kind for message in cluster.hosts[name].messages()}
        assert ACK in kinds and OP not in kinds
    assert cluster.are_equal()
