"""Seed 000, the second part: the state that servers share, the cluster key, and clients.

Each test quotes lines of the seed and says their numbers. Where we do otherwise, the test's name and
docstring say what, and docs/design/cluster.md says why.
"""

from __future__ import annotations

from hashlib import sha256

import pytest

from penstock.broker.topology import AddVhost, SetPermissions, SetPolicy
from penstock.cluster.messages import ROOT
from penstock.cluster.timing import Timing
from penstock.formats.amqp091_frames import HEARTBEAT
from penstock.ha.messages import SYNC
from penstock.wire.amqp091 import methods_generated as m
from tests.seeds.cluster_doubles import KEY, TIMING, Cluster, SimulatedClient
from tests.seeds.watched_host import WatchedHost


def has_exchange(host: WatchedHost, name: str) -> bool:
    return name in host.node.state.vhost("/").exchanges


def has_queue(host: WatchedHost, name: str) -> bool:
    return name in host.node.state.vhost("/").queues


def everywhere(cluster: Cluster) -> list[WatchedHost]:
    cluster.settle()
    return [cluster.hosts[name] for name in cluster.up()]


def come_back_empty(cluster: Cluster, name: str) -> WatchedHost:
    """A new server in the place of one that was lost with its disk."""
    host = cluster.hosts[name]
    host.die()
    host.is_dead = False
    host.disk.wipe()
    host.disk_count += 1
    host.forget_format()
    host.start()
    root = cluster.hosts[cluster.roots()[0]]
    cluster.until(lambda: root.election.store_id_of(name) == host.store_id)
    cluster.until(lambda: not root.election.replace_member(name, root.now()))
    cluster.elected(root.name)
    cluster.settle()
    return host


# State replication.


def test_methods_that_change_the_state_are_replicated_from_the_root_to_all_nodes() -> None:
    """Line 55: "certain AMQP methods are replicated to all servers". Line 56: "from primary to all
    nodes". Line 59: "all such methods form the "cluster state"". Line 60: "all primary servers hold
    list of cluster state methods". Held is what they result in, not the list.
    """
    cluster = Cluster("abcde")
    client = cluster.client()
    before = cluster.definitions("a")
    client.call(m.ExchangeDeclare("x", "topic", durable=True))
    client.call(m.QueueDeclare("q", durable=True))
    client.call(m.QueueBind("q", "x", "some.key"))
    cluster.settle()
    assert len(cluster.definitions("e")) == len(before) + 3
    assert cluster.have_same_definitions()


def test_a_new_server_hears_the_root_and_receives_the_full_state() -> None:
    """Line 61: "when new server connects to root". Line 62: "receives Cluster.Root message". Line 63:
    "receives full cluster state".
    """
    cluster = Cluster()
    client = cluster.client()
    client.call(m.ExchangeDeclare("x", "topic", durable=True))
    client.call(m.QueueDeclare("q", durable=True))
    root = cluster.hosts["a"]
    said = len(root.messages())
    come_back_empty(cluster, "c")
    kinds = [message.kind for message in root.messages()]
    assert len(kinds) > said
    assert ROOT in kinds and SYNC in kinds
    assert cluster.have_same_definitions()


def test_a_new_server_receives_the_messages_too() -> None:
    """Line 64: "excluding application messages". Here they are part of the state, as seed 001 has it:
    a server without them could not become the root.
    """
    cluster = Cluster()
    client = cluster.client()
    client.call(m.QueueDeclare("q", durable=True))
    client.confirmed_publish("q", b"one", b"two")
    assert come_back_empty(cluster, "c").bodies("q") == [b"one", b"two"]


# Exchanges.


def test_exchanges_are_held_globally() -> None:
    """Line 68: "exchanges are held globally". Line 69: "exchange.declare, exchange.delete replicated
    cluster-wide". Line 268: "test that exchanges are replicated". Transient ones too.
    """
    cluster = Cluster()
    client = cluster.client()
    client.call(m.ExchangeDeclare("lasting", "fanout", durable=True))
    client.call(m.ExchangeDeclare("passing", "fanout"))
    for name in ("lasting", "passing"):
        assert all(has_exchange(host, name) for host in everywhere(cluster))
        client.call(m.ExchangeDelete(name))
        assert not any(has_exchange(host, name) for host in everywhere(cluster))


def test_exchanges_are_replayed_onto_new_servers() -> None:
    """Line 70: "stateful, replayed onto new servers"."""
    cluster = Cluster()
    client = cluster.client()
    client.call(m.ExchangeDeclare("x", "fanout", durable=True))
    client.call(m.ExchangeDeclare("gone", "fanout", durable=True))
    client.call(m.ExchangeDelete("gone"))
    host = come_back_empty(cluster, "b")
    assert has_exchange(host, "x") and not has_exchange(host, "gone")


def test_of_two_clients_that_declare_an_exchange_differently_one_is_refused() -> None:
    """Line 71: "no guarantee of consistency if application is inconsistent". Here the root orders
    them, and all servers have what the first one declared.
    """
    cluster = Cluster()
    clients = [cluster.client(), cluster.client()]
    for client, kind in zip(clients, ("topic", "fanout"), strict=True):
        client.ask(m.ExchangeDeclare("x", kind, durable=True))
    errors = declared_and_refused(cluster, clients, m.ExchangeDeclareOk)
    assert errors == [406]
    kinds = {host.node.state.vhost("/").exchange("x").kind for host in everywhere(cluster)}
    assert len(kinds) == 1


def declared_and_refused(
    cluster: Cluster, clients: list[SimulatedClient], ok: type[m.Method]
) -> list[int]:
    """The reply codes of those that were refused, when all have an answer."""
    cluster.until(
        lambda: (
            sum(client.replies(ok) + (client.channel_error is not None) for client in clients)
            == len(clients)
        )
    )
    return [client.channel_error.code for client in clients if client.channel_error is not None]


# Queues.


def test_every_server_holds_all_shared_queues_and_the_root_the_private_ones() -> None:
    """Line 75: "each server holds all global queues plus own private queues". Line 76: "shared queues
    (exclusive = 0) are held globally". Line 77: "queue.declare, queue.delete replicated
    cluster-wide".
    """
    cluster = Cluster()
    client = cluster.client()
    client.call(m.QueueDeclare("shared", durable=True))
    client.call(m.QueueDeclare("passing"))
    client.call(m.QueueDeclare("private", exclusive=True))
    for name in ("shared", "passing"):
        assert all(has_queue(host, name) for host in everywhere(cluster))
    assert [has_queue(host, "private") for host in everywhere(cluster)] == [True, False, False]
    client.call(m.QueueDelete("shared"))
    assert not any(has_queue(host, "shared") for host in everywhere(cluster))


def test_shared_queues_are_replayed_onto_new_servers() -> None:
    """Line 78: "stateful, replayed onto new servers"."""
    cluster = Cluster()
    client = cluster.client()
    client.call(m.QueueDeclare("shared", arguments={"x-max-length": 5}, durable=True))
    host = come_back_empty(cluster, "c")
    assert host.node.state.vhost("/").queue("shared").settings.max_length == 5


def test_of_two_clients_that_declare_a_queue_differently_one_is_refused() -> None:
    """Line 79: "no guarantee of consistency if application is inconsistent". Line 80: "i.e. queue
    declared differently on different servers". Here one of them wins and the other gets 406.
    """
    cluster = Cluster()
    clients = [cluster.client(), cluster.client()]
    for number, client in enumerate(clients):
        client.ask(m.QueueDeclare("q", arguments={"x-max-length": number + 1}, durable=True))
    assert declared_and_refused(cluster, clients, m.QueueDeclareOk) == [406]
    lengths = {
        host.node.state.vhost("/").queue("q").settings.max_length for host in everywhere(cluster)
    }
    assert len(lengths) == 1


def test_purges_of_shared_queues_are_replicated() -> None:
    """Line 81: "queue.purges are replicated iff queue is shared". Line 82: "not stateful". A new
    server gets what is left, not the purge.
    """
    cluster = Cluster()
    client = cluster.client()
    client.call(m.QueueDeclare("q", durable=True))
    client.confirmed_publish("q", b"before")
    cluster.settle()
    assert [host.bodies("q") for host in cluster.hosts.values()] == [[b"before"]] * 3
    client.call(m.QueuePurge("q"))
    assert [host.bodies("q") for host in everywhere(cluster)] == [[]] * 3
    client.confirmed_publish("q", b"after")
    assert come_back_empty(cluster, "c").bodies("q") == [b"after"]


# Bindings.


def test_bindings_of_shared_queues_are_replicated_and_replayed() -> None:
    """Line 89: "queue.binds are replicated if queue is shared". Line 90: "stateful, replayed onto new
    servers". Line 91: "shared queues are bound to all exchanges on all nodes".
    """
    cluster = Cluster()
    client = cluster.client()
    client.call(m.ExchangeDeclare("x", "direct", durable=True))
    client.call(m.QueueDeclare("q", durable=True))
    client.call(m.QueueBind("q", "x", "key"))
    client.call(m.QueueBind("q", "amq.fanout"))
    cluster.settle()
    assert cluster.have_same_definitions()
    come_back_empty(cluster, "b")
    cluster.hosts["a"].die()
    client = cluster.client(cluster.elected().name)
    client.confirmed_publish("key", b"by key", exchange="x")
    client.confirmed_publish("", b"to all", exchange="amq.fanout")
    cluster.settle()
    for name in "bc":
        assert cluster.hosts[name].bodies("q") == [b"by key", b"to all"]


# The cluster key.


def test_an_application_may_present_the_cluster_key_which_is_verified() -> None:
    """Line 123: "string specified in server config and by application". Line 124: "specified by
    application at connection open time". Line 126: "verified by cluster connection manager". It
    presents the SHA-256 of the key, because the key itself is never sent.
    """
    cluster = Cluster()
    name = cluster.elected().name
    right = cluster.caller(name, sha256(KEY).hexdigest())
    wrong = cluster.caller(name, sha256(b"another key").hexdigest())
    cluster.until(lambda: right.is_open and wrong.end is not None)
    assert wrong.end is not None and wrong.end.code == 530
    assert not wrong.is_open


def test_the_cluster_key_is_a_property_of_the_client() -> None:
    """Line 125: "Connection.Open.cluster_key (string)". AMQP 0-9-1 has no such field, so it is a client
    property; and it may be left out, because programs that know nothing of clusters are served too.
    """
    assert not hasattr(m.ConnectionOpen("/"), "cluster_key")
    cluster = Cluster()
    client = cluster.caller(cluster.elected().name)
    cluster.until(lambda: client.is_open)


def test_the_cluster_key_must_match_between_servers() -> None:
    """Line 127: "must also match for intra-cluster connections"."""
    cluster = Cluster(key_of={"c": b"another key"})
    cluster.elected_among("ab")
    cluster.run(5)
    assert not cluster.member_status("a", "c").is_connected
    assert cluster.hosts["a"].record.in_sync == ("a", "b")
    assert cluster.status("c").role == "joining"


# Clients.


def test_clients_are_held_while_no_root_is_defined() -> None:
    """Line 193: "if cluster enabled but not ready, wait". Line 194: "not ready = no root server defined
    yet". Line 195: "hold onto client connection...".
    """
    cluster = Cluster()
    clients = [cluster.caller(name) for name in "abc"]
    cluster.run(TIMING.elect_ms / 2000)
    assert cluster.roots() == []
    assert not any(client.is_open or client.is_ended for client in clients)
    cluster.elected("a")
    cluster.until(lambda: clients[0].is_open, 1)
    # The others are told where the root is.
    cluster.until(lambda: all(client.is_ended for client in clients[1:]))
    ends = [client.end.text if client.end else "" for client in clients]
    assert ends[0] == "" and "a:5672" in ends[1] and "a:5672" in ends[2]


def end_of(client: SimulatedClient) -> tuple[int, bool]:
    """The reply code, and whether the text says that there is no root."""
    error = client.end
    return (0, False) if error is None else (error.code, "no root" in error.text)


def test_held_clients_are_paused_with_heartbeats_and_closed_in_the_end() -> None:
    """Line 196: "if cluster disabled". Line 197: "pause client activity". Line 198: "client application
    can timeout if bored".
    """
    # Shorter than the patience of the client.
    cluster = Cluster(timing=Timing(pause_ms=8000))
    cluster.elected("a")
    for name in "bc":
        cluster.hosts[name].die()
    cluster.until(lambda: cluster.status("a").role == "joining")
    held, bored = cluster.caller("a"), cluster.caller("a")
    cluster.run(6)
    assert bytes(held.heard).count(HEARTBEAT) > 5
    assert held.end is None and bored.end is None and not held.is_open
    bored.close()
    cluster.run(1)
    assert bored.is_ended and bored.end is None
    cluster.until(lambda: held.is_ended, 3)
    assert end_of(held) == (320, True)


def test_a_root_that_cannot_go_on_closes_its_clients() -> None:
    """Line 204: "if cluster goes down, all connections should be closed". So that they do not wait for
    a server that cannot answer, and send again what is in doubt.
    """
    cluster = Cluster()
    client = cluster.client()
    client.call(m.QueueDeclare("q", durable=True))
    cluster.isolate("a")
    client.publish("q", b"in doubt")
    cluster.until(lambda: client.end is not None)
    assert client.end is not None and client.end.code == 320
    assert "is not the root any more" in client.end.text
    assert client.confirmed == [] and client.in_doubt == [b"in doubt"]


@pytest.mark.parametrize("names", ["abc", "abcde"])
def test_a_root_that_goes_down_without_a_word_is_missed_by_its_heartbeats(names: str) -> None:
    """Line 205: "need to add heartbeating to proxy link to double-check". Line 206: "--- sometimes when
    root goes down, we don't see it...".
    """
    cluster = Cluster(names)
    cluster.elected("a")
    cluster.die_silently("a")
    took = cluster.clock.microseconds
    cluster.until(lambda: cluster.roots() == ["b"], 8)
    took = (cluster.clock.microseconds - took) // 1000
    assert took >= TIMING.grace_ms
    # The links to it are given up as well.
    cluster.until(lambda: not cluster.member_status("b", "a").is_connected)


# Console issues.


def test_configuration_is_replicated_across_the_cluster() -> None:
    """Line 210: "replicate configuration across cluster": virtual hosts, permissions and policies."""
    cluster = Cluster()
    root = cluster.elected()
    root.node.apply(AddVhost("other"), root.now())
    root.node.apply(SetPermissions("guest", "other", ".*", "", ".*"), root.now())
    root.node.apply_to_vhost("/", SetPolicy("short", "^q", {"max-length": 3}), root.now())
    root.schedule_flush()
    cluster.settle()
    for host in cluster.hosts.values():
        assert "other" in host.node.state.vhosts
    assert cluster.have_same_definitions()
    cluster.hosts["a"].die()
    client = cluster.client(cluster.elected("b").name)
    client.call(m.QueueDeclare("q", durable=True))
    assert cluster.hosts["b"].node.state.vhost("/").queue("q").settings.max_length == 3


def test_the_root_role_is_enabled_and_disabled_per_server() -> None:
    """Line 211: "enable/disable root on specific server"."""
    cluster = Cluster()
    root = cluster.elected("a")
    cluster.until(lambda: not root.election.disable_root("b", root.now()))
    cluster.until(lambda: not cluster.member_status("c", "b").may_be_root)
    root.die()
    cluster.elected("c")
    cluster.hosts["a"].revive()
    root = cluster.elected("c")
    cluster.until(lambda: not root.election.enable_root("b", root.now()))
    cluster.until(lambda: cluster.member_status("a", "b").may_be_root)
    cluster.hand_over("b")


# Test scenarios of the seed. Clients are served by the root alone: another node is the next root.


def test_an_exchange_of_one_node_takes_bindings_on_another() -> None:
    """Line 269: "create exchange on one node, bind queue to exchange on other". Line 270: "root to
    root". Line 271: "root to backup". Line 272: "root to self". Line 275: "backup to self".
    """
    cluster = Cluster()
    client = cluster.client()
    client.call(m.ExchangeDeclare("x", "fanout", durable=True))
    client.call(m.QueueDeclare("own", durable=True))
    assert client.call(m.QueueBind("own", "x")) is not None
    cluster.hosts["a"].die()
    client = cluster.client(cluster.elected("b").name)
    client.call(m.QueueDeclare("other", durable=True))
    assert client.call(m.QueueBind("other", "x")) is not None
    client.confirmed_publish("", b"to both", exchange="x")
    cluster.settle()
    assert [cluster.hosts["c"].bodies(queue) for queue in ("own", "other")] == [[b"to both"]] * 2


def test_a_shared_queue_of_one_node_is_consumed_on_another() -> None:
    """Line 282: "same test on shared queue". Line 283: "create shared queue on one node, consume from
    queue on other".
    """
    cluster = Cluster()
    client = cluster.client()
    client.call(m.QueueDeclare("q", durable=True))
    client.confirmed_publish("q", b"one", b"two")
    cluster.hosts["a"].die()
    client = cluster.client(cluster.elected("b").name)
    assert [delivery.body for delivery in client.consume("q", 2)] == [b"one", b"two"]
