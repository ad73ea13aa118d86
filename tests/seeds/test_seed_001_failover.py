"""Seeds 001 and 003, the second part: locating the root, fail-over, joining, and readiness.

Each test quotes lines of seed 001 and says their numbers; where seed 003 says the same, its line is given as
003:69. Where we do otherwise, the test's name and docstring say what, and docs/design/cluster.md says why.
"""

from __future__ import annotations

from penstock.broker.topology import DeclareQueue
from penstock.client.uri import Address
from penstock.formats.replication_id import epoch_of
from penstock.ha.messages import JOIN, OP, PIECE, RESUME, SYNC
from penstock.simulation.cluster_ledger import ClusterLedger
from penstock.simulation.plans import QueuePlan, Scenario, Topology
from penstock.simulation.publisher import Publisher
from penstock.wire.amqp091 import methods_generated as m
from tests.seeds.cluster_doubles import TIMING, Cluster, SimulatedClient
from tests.seeds.watched_host import WatchedHost

BODIES = [b"%d" % number for number in range(40)]


def with_queue(cluster: Cluster) -> SimulatedClient:
    client = cluster.client()
    client.call(m.QueueDeclare("q", durable=True))
    cluster.settle()
    return client


def count_of(host: WatchedHost, kind: int) -> int:
    return sum(message.kind == kind for message in host.messages())


# Fail-over.


def test_when_the_primary_fails_a_backup_is_promoted_by_election() -> None:
    """Line 41: "When the primary fails, one of the backups is promoted by an external cluster resource
    manager." Here by the backups themselves.
    """
    cluster = Cluster()
    with_queue(cluster)
    cluster.hosts["a"].die()
    root = cluster.elected()
    assert root.name in "bc"
    assert root.member.primary is not None and root.member.primary.epoch == 2


def test_the_other_backups_fail_over_to_the_new_primary() -> None:
    """Line 42: "The other backups fail-over to the new primary."""
    cluster = Cluster("abcde")
    client = with_queue(cluster)
    client.confirmed_publish("q", b"one")
    cluster.hosts["a"].die()
    root = cluster.elected()
    for name in cluster.up():
        if name != root.name:
            assert cluster.status(name).root == root.name
            assert cluster.hosts[name].member.backup.is_synced
    cluster.client(root.name).confirmed_publish("q", b"two")
    cluster.settle()
    assert all(cluster.hosts[name].bodies("q") == [b"one", b"two"] for name in "bcde")


# Locating the primary.


def test_clients_find_the_root_with_a_list_of_addresses() -> None:
    """Line 47: "Clients connect to the cluster via one of:". Line 49: "a list of addresses for all
    brokers." Line 51: "If the connection fails the client re-tries its address or list of addresses till
    it re-connects." The program is the simulator's, and checks its confirms by itself.
    """
    cluster = Cluster()
    root = cluster.elected("a")
    root.node.apply_to_vhost("/", DeclareQueue("q", durable=True), root.now())
    root.schedule_flush()
    cluster.settle()
    topology = Topology({}, (QueuePlan("q"),), (), (("", "q"),))
    ledger = ClusterLedger("cluster", topology, cluster.history)
    ledger.begin()
    addresses = [Address(name, heartbeat_seconds=1) for name in "cba"]
    program = Publisher(
        "client",
        addresses[0],
        cluster.clock,
        cluster.dice.fork("client"),
        cluster.network,
        ledger,
        Scenario(topology),
    )
    program.know(addresses)
    program.connect()
    cluster.until(lambda: program.conversation is not None)
    assert program.address.host == "a"
    cluster.hosts["a"].die()
    root = cluster.elected()
    cluster.until(lambda: program.conversation is not None and program.address.host == root.name)


def test_backups_send_clients_to_the_root() -> None:
    """Line 52: "Backup brokers have a ConnectionObserver that rejects client connections by aborting the
    connection, causing the client to re-try." Here with 320 and the address of the root.
    """
    cluster = Cluster()
    cluster.elected("a")
    clients = [cluster.caller(name) for name in "bc"]
    cluster.until(lambda: all(client.end is not None for client in clients))
    for client in clients:
        assert client.end is not None and client.end.code == 320
        assert "connect to a:5672" in client.end.text
        assert not client.is_open


# Joining.


def cut_off_with(cluster: Cluster, *bodies: bytes) -> None:
    """The root has written messages that nobody else has, and is down."""
    client = cluster.client("a")
    cluster.isolate("a")
    client.publish("q", *bodies)
    cluster.until(lambda: len(cluster.hosts["a"].bodies("q")) >= len(bodies))
    cluster.run(0.3)
    assert client.confirmed == []
    cluster.die_silently("a")
    cluster.network.unite()


def test_extra_messages_are_removed_from_a_backup_on_fail_over() -> None:
    """Line 60: "remove extra messages from backup on failover." (003:16) Line 119: "Messages that are
    dequeued on the primary and can be discarded by the backup."
    """
    cluster = Cluster()
    with_queue(cluster).confirmed_publish("q", b"kept", b"dequeued")
    cut_off_with(cluster, b"extra")
    root = cluster.elected()
    client = cluster.client(root.name)
    second = client.consume("q", 2)[1]
    client.tell(m.BasicAck(second.delivery_tag))
    cluster.run(0.2)
    cluster.settle()
    cluster.hosts["a"].revive()
    assert cluster.hosts["a"].bodies("q") == [b"kept", b"dequeued", b"extra"]
    cluster.elected(root.name)
    cluster.settle()
    assert cluster.hosts["a"].bodies("q") == [b"kept"]
    assert cluster.are_equal()


def test_messages_that_a_backup_has_are_not_sent_again() -> None:
    """Line 61: "avoid downloading messages already on backup on failover." (003:17) Line 118: "Messages
    that are on the backup and don't need to be replicated again." Line 136: "A backup sends a set of
    acknowledged message ids when subscribing, messages that are already on the backup and therefore
    safe." (003:73)
    """
    cluster = Cluster()
    with_queue(cluster).confirmed_publish("q", *BODIES)
    cluster.settle()
    cluster.hosts["a"].die()
    root = cluster.elected()
    cluster.client(root.name).confirmed_publish("q", b"the only new one")
    before = count_of(root, PIECE)
    said = sum(len(tap.written) for tap in root.taps)
    cluster.hosts["a"].revive()
    cluster.elected(root.name)
    cluster.settle()
    assert cluster.hosts["a"].bodies("q") == [*BODIES, b"the only new one"]
    assert count_of(root, PIECE) == before + 1
    pieces = b"".join(bytes(tap.written) for tap in root.taps)[said:]
    assert b"the only new one" in pieces
    assert count_of(root, SYNC) > 0 and count_of(cluster.hosts["a"], JOIN) > 0


def test_both_sides_exchange_what_they_have() -> None:
    """Line 112: "On failover, for each queue, the backup gets the QueueSnapshot of messages on the queue
    and sends it with the subscription to the primary queue." Line 113: "The primary responds with its own
    snapshot." Here for all queues at once, as ranges of ids: JOIN and SYNC.
    """
    cluster = Cluster()
    with_queue(cluster).confirmed_publish("q", *BODIES)
    cluster.hosts["a"].die()
    root = cluster.elected()
    other = cluster.hosts["b" if root.name == "c" else "c"]
    # The first JOIN was to the first root.
    assert count_of(other, JOIN) == 2
    assert count_of(root, SYNC) > 0
    assert count_of(root, PIECE) == 0


def test_a_backup_that_lost_its_link_gets_what_it_lacks_of_the_same_stream() -> None:
    """Line 121: "Queue position for the ReplicatingSubscription to start replicating from." Line 123:
    "After that handshake queue replication as described above begins."
    """
    cluster = Cluster()
    client = with_queue(cluster)
    root = cluster.hosts["a"]
    syncs = count_of(root, SYNC)
    cluster.hosts["c"].kill()
    cluster.until(lambda: not cluster.hosts["c"].is_up)
    client.publish("q", b"missed")
    cluster.elected("a")
    cluster.until(lambda: client.confirmed == [b"missed"])
    cluster.until(lambda: cluster.hosts["c"].is_up)
    cluster.elected("a")
    assert count_of(root, RESUME) > 0
    assert count_of(root, SYNC) == syncs
    client.confirmed_publish("q", b"live")
    cluster.settle()
    assert cluster.hosts["c"].bodies("q") == [b"missed", b"live"]


def test_a_join_takes_effect_at_once_and_never_in_parts() -> None:
    """Line 116: "Both parties use this information to determine:". Until a backup has all of it, its
    state is what it was before: it may be elected in the middle of joining.
    """
    cluster = Cluster()
    with_queue(cluster).confirmed_publish("q", b"kept")
    cut_off_with(cluster, b"extra")
    root = cluster.elected()
    client = cluster.client(root.name)
    client.call(m.QueuePurge("q"))
    # Several pieces.
    bodies = [body * 20_000 for body in BODIES]
    client.confirmed_publish("q", *bodies)
    backup = cluster.hosts["a"]
    backup.revive()
    seen: set[tuple[bytes, ...]] = set()

    def is_joined() -> bool:
        seen.add(tuple(backup.bodies("q")))
        return len(backup.bodies("q")) == len(BODIES)

    cluster.until(is_joined)
    assert count_of(root, PIECE) > 2
    assert seen == {(b"kept", b"extra"), tuple(bodies)}


# Ready.


def test_guards_are_set_when_a_backup_joins_and_do_not_cover_what_was_acknowledged_before() -> None:
    """Line 132: "A QueueGuard is set on the queue when a backup first subscribes or when a backup fails
    over to a new primary." Line 133: "Messages before the _first guarded position_ cannot be delayed
    because they may have already been acknowledged to clients." Line 120: "Queue position for the
    QueueGuard to start delaying completion." (003:69, 003:70)
    """
    cluster = Cluster()
    client = with_queue(cluster)
    cluster.hosts["c"].die()
    client.confirmed_publish("q", b"before")
    cluster.until(lambda: cluster.hosts["a"].record.in_sync == ("a", "b"))
    cluster.hosts["c"].revive()
    cluster.elected("a")
    # From now on it is waited for.
    cluster.hosts["c"].disk.hang(700_000)
    client.publish("q", b"after")
    cluster.run(0.4)
    assert client.confirmed == [b"before"]
    cluster.until(lambda: client.confirmed == [b"before", b"after"], 1)


def test_a_backup_is_ready_when_it_has_acknowledged_everything_committed() -> None:
    """Line 139: "A ReplicatingSubscription is _ready_ when all messages are safe or delayed." Line 139: "We
    know this is the case when both the following conditions hold:". Line 142: "The
    ReplicatingSubscription has reached the position preceding the first guarded position AND". Line 143:
    "All messages prior to the first guarded position are safe." (003:76, 003:79, 003:80)
    """
    cluster = Cluster()
    client = with_queue(cluster)
    cluster.hosts["c"].die()
    cluster.until(lambda: cluster.hosts["a"].record.in_sync == ("a", "b"))
    client.confirmed_publish("q", *[body * 1000 for body in BODIES])
    cluster.hosts["c"].revive()
    roles: list[str] = []

    def is_ready() -> bool:
        role = cluster.status("c").role
        if not roles or roles[-1] != role:
            roles.append(role)
        has_all = len(cluster.hosts["c"].bodies("q")) == len(BODIES)
        assert has_all or "c" not in cluster.hosts["a"].record.in_sync
        return role == "ready"

    cluster.until(is_ready)
    assert roles[0] == "joining"
    assert cluster.hosts["a"].record.in_sync == ("a", "b", "c")


def test_a_backup_that_cannot_follow_is_let_go_and_comes_back() -> None:
    """Line 139: "A ReplicatingSubscription is _ready_ when all messages are safe or delayed." One that is
    not any more leaves the in-sync set, by a record that a majority has accepted.
    """
    cluster = Cluster()
    client = with_queue(cluster)
    cluster.hosts["c"].disk.hang(TIMING.in_sync_ms * 3000)
    client.publish("q", b"one")
    cluster.until(lambda: client.confirmed == [b"one"])
    assert cluster.hosts["b"].record.in_sync == ("a", "b")
    assert cluster.status("c").role in {"catchup", "joining"}
    cluster.elected("a")
    assert cluster.hosts["a"].record.in_sync == ("a", "b", "c")


def test_what_a_new_root_inherits_is_flagged_and_what_it_takes_is_not() -> None:
    """Line 57: "Replication IDs are sequence numbers assigned to a message *before* it is enqueued." The
    id says which root gave it; a message of an earlier one may have been delivered before.
    """
    cluster = Cluster()
    with_queue(cluster).confirmed_publish("q", b"inherited")
    cluster.hosts["a"].die()
    root = cluster.elected()
    client = cluster.client(root.name)
    client.confirmed_publish("q", b"new")
    flags = [(one.body, one.redelivered) for one in client.consume("q", 2)]
    assert flags == [(b"inherited", True), (b"new", False)]
    assert [epoch_of(position) for position in root.positions("q")] == [1, 2]
    assert count_of(root, OP) > 0
