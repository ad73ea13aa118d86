"""Seed 000, the first part: partitions, voting, links between servers, and the root.

Each test quotes lines of the seed and says their numbers. The servers are simulated; the node, its links
and its store are the shipped ones. Where we do otherwise, the test's name and docstring say what, and
docs/design/cluster.md says why. The state that servers share, and clients, are in test_seed_000_state.py.
"""

from __future__ import annotations

import itertools

import pytest

from penstock.broker.access.users import hash_password
from penstock.broker.topology import PutUser
from penstock.cluster.messages import PREVOTED, ROOT, VOTED
from penstock.ha.messages import OP, SYNC
from penstock.wire.amqp091 import methods_generated as m
from tests.broker.doubles import CountingEntropy
from tests.seeds.cluster_doubles import KEY, TIMING, Cluster
from tests.seeds.watched_host import CLUSTER_CLASS, WatchedHost, methods_in

CONTROL, STREAM = m.ClusterControl.METHOD_ID, m.ClusterStream.METHOD_ID


def kinds(host: WatchedHost) -> set[int]:
    return {message.kind for message in host.messages()}


def living_lines(cluster: Cluster) -> list[tuple[str, str]]:
    """Who has dialled whom, over lines that neither end has given up."""
    return sorted(
        line.ends
        for line in cluster.network.lines()
        if not (line.near.is_over or line.far.is_over or "client" in line.ends[0])
    )


def pairs(names: str) -> list[tuple[str, str]]:
    return sorted(itertools.permutations(names, 2))


# The primary partition.


@pytest.mark.parametrize("names", ["abc", "abcde"])
def test_servers_are_fully_interconnected_each_a_client_of_each_other(names: str) -> None:
    """Line 2: "fully interconnected". Line 3: "each server is client of each other server"."""
    cluster = Cluster(names)
    cluster.elected()
    assert living_lines(cluster) == pairs(names)


def test_every_server_can_be_elected() -> None:
    """Line 4: "servers can be elected to root"."""
    cluster = Cluster()
    cluster.elected("a")
    for heir in "bca":
        cluster.hand_over(heir)


def test_servers_share_primary_config_data() -> None:
    """Line 5: "servers share primary config data". Users, for instance."""
    cluster = Cluster()
    root = cluster.elected()
    root.node.apply(PutUser("alice", hash_password(b"secret", CountingEntropy())), root.now())
    root.schedule_flush()
    cluster.settle()
    for host in cluster.hosts.values():
        assert "alice" in [user.name for user in host.node.state.users.listed()]


# Who becomes the root.


@pytest.mark.parametrize("names", ["abc", "cab", "bacde"])
def test_the_root_is_the_most_senior_server(names: str) -> None:
    """Line 15: "root server is most senior primary server". The order in which members are named
    is their seniority; names mean nothing.
    """
    assert Cluster(names).elected().name == names[0]


def test_a_senior_server_that_comes_back_does_not_take_over() -> None:
    """Line 15: "root server is most senior primary server". Here that holds for the election, not
    after it: a root that is well remains, because each change costs every client its connection.
    """
    cluster = Cluster()
    cluster.elected("a")
    cluster.hosts["a"].die()
    cluster.elected("b")
    cluster.hosts["a"].revive()
    cluster.elected("b")
    cluster.run(10)
    assert cluster.roots() == ["b"]


def test_a_senior_server_that_lacks_what_was_confirmed_is_not_elected() -> None:
    """Line 15: "root server is most senior primary server". Only among those that hold everything
    that was confirmed: else it would erase what was confirmed in its absence.
    """
    cluster = Cluster()
    cluster.elected("a")
    cluster.hosts["a"].die()
    client = cluster.client(cluster.elected("b").name)
    client.call(m.QueueDeclare("q", durable=True))
    client.confirmed_publish("q", b"kept")
    # It is back, and the others go down before it has what it missed.
    cluster.isolate("a")
    cluster.hosts["a"].revive()
    for name in "bc":
        cluster.hosts[name].die()
    cluster.network.unite()
    # Its campaign is under way before anybody can vote for it.
    cluster.run(5)
    cluster.hosts["c"].revive()
    assert cluster.elected().name == "c"
    assert [cluster.hosts[name].bodies("q") for name in "ac"] == [[b"kept"], [b"kept"]]


def test_the_root_takes_over_with_the_votes_of_all_active_servers() -> None:
    """Line 16: "takes over when has unanimous vote of active primary servers"."""
    cluster = Cluster("abcde")
    cluster.elected("a")
    # The last vote may come when a majority has elected already.
    cluster.until(lambda: all(cluster.status(name).votes == (5, 5, 5) for name in "abcde"))
    for name in "bcde":
        assert {PREVOTED, VOTED} <= kinds(cluster.hosts[name])


def test_one_server_that_hangs_does_not_prevent_an_election() -> None:
    """Line 16: "takes over when has unanimous vote of active primary servers". Here a candidate
    waits for all servers that are connected, but for half a second only.
    """
    cluster = Cluster("abcde")
    cluster.elected("a")
    # It is connected and does not answer.
    cluster.hosts["e"].pause(60_000_000)
    cluster.hosts["a"].die()
    cluster.until(lambda: cluster.roots() == ["b"])
    assert cluster.status("b").votes[0] == 3
    assert PREVOTED in kinds(cluster.hosts["c"]) & kinds(cluster.hosts["d"])


def test_more_than_half_of_the_known_servers_elect() -> None:
    """Line 17: "and active voters are >50% of known primary servers"."""
    cluster = Cluster("abcde")
    cluster.elected("a")
    for name in "abc":
        cluster.hosts[name].die()
    cluster.run(10)
    assert cluster.roots() == []
    assert [cluster.status(name).votes[1:] for name in "de"] == [(2, 5), (2, 5)]
    cluster.hosts["c"].revive()
    cluster.elected()
    assert cluster.status("d").votes == (3, 3, 5)


def test_half_of_the_known_servers_are_not_more_than_half() -> None:
    """Line 17: "and active voters are >50% of known primary servers"."""
    cluster = Cluster("abcd")
    cluster.elected("a")
    for name in "ab":
        cluster.hosts[name].die()
    cluster.run(10)
    assert cluster.roots() == []


# The voting procedure.


def test_each_server_does_its_own_election_with_the_same_result() -> None:
    """Line 22: "each server does its own election". Line 24: "we expect same election results
    across all cluster".
    """
    cluster = Cluster()
    cluster.elected("a")
    cluster.hosts["a"].die()
    # Nobody has been elected yet, and both know already who will be.
    cluster.run((TIMING.grace_ms + TIMING.elect_ms) / 2000)
    assert cluster.roots() == []
    assert [cluster.status(name).expected_root for name in "bc"] == ["b", "b"]
    assert [cluster.elected().name, *[cluster.status(name).root for name in "bc"]] == ["b"] * 3


def test_the_result_depends_on_the_names_of_all_known_peers() -> None:
    """Line 23: "based on own SPID and SPIDs of all known peers". A server that can reach only some
    of the known ones expects the most senior of these, and nobody without a majority.
    """
    cluster = Cluster("cab")
    cluster.elected("c")
    cluster.die_silently("c")
    cluster.run(5)
    assert [cluster.status(name).expected_root for name in "ab"] == ["a", "a"]
    cluster.die_silently("a")
    cluster.run(5)
    assert cluster.status("b").expected_root == ""


# For best results.


def test_three_servers_go_on_without_one_and_two_do_not() -> None:
    """Line 28: "use 3 or more primary servers"."""
    for names, goes_on in (("abc", True), ("ab", False)):
        cluster = Cluster(names)
        cluster.elected("a")
        cluster.hosts[names[-1]].die()
        cluster.run(10)
        client = cluster.caller("a")
        cluster.run(5)
        assert (cluster.roots() == ["a"]) is goes_on
        assert client.is_open is goes_on


def test_a_server_with_another_configuration_is_refused() -> None:
    """Line 29: "all servers have identical cluster configuration"."""
    cluster = Cluster()
    cluster.elected("a")
    cluster.hosts["c"].die()
    cluster.digest_of["c"] = "another configuration"
    cluster.hosts["c"].revive()
    cluster.run(5)
    assert not cluster.member_status("a", "c").is_connected
    cluster.digest_of["c"] = ""
    cluster.hosts["c"].die()
    cluster.hosts["c"].revive()
    cluster.elected("a")


def test_a_server_that_was_formatted_with_other_members_does_not_count() -> None:
    """Line 29: "all servers have identical cluster configuration". The list of members included."""
    cluster = Cluster("ab")
    cluster.add_host("c", cluster.bootstrap("cab"))
    assert cluster.elected_among("ab") == "a"
    cluster.run(5)
    assert cluster.status("a").members[-1].name == "b"
    assert cluster.status("c").role == "joining"


# Connections between servers.


def test_servers_log_in_as_cluster_and_never_send_the_key() -> None:
    """Line 33: "clients logged in as cluster/cluster". The user has that name; the password is the
    cluster's key, which only its owner can answer for.
    """
    cluster = Cluster()
    cluster.elected()
    spoken = b"".join(bytes(tap.written) for host in cluster.hosts.values() for tap in host.taps)
    logins = [
        m.ConnectionStartOk.decode(method)
        for host in cluster.hosts.values()
        for tap in host.taps
        for method in methods_in(tap.written)
        if method.startswith(m.CONNECTION_START_OK.to_bytes(4, "big"))
    ]
    assert len(logins) == 6
    assert all(login.mechanism == "SCRAM-SHA-256" for login in logins)
    assert all(b"n=cluster," in login.response for login in logins)
    assert KEY not in spoken and KEY.hex().encode() not in spoken


def test_callback_and_spid_are_provided_at_connection_time() -> None:
    """Line 34: "provide callback and spid at connection time"."""
    cluster = Cluster()
    cluster.elected()
    for name, host in cluster.hosts.items():
        hellos = [
            m.ClusterHello.decode(method).properties
            for tap in host.taps
            for method in methods_in(tap.written)
            if method[:4] == CLUSTER_CLASS.to_bytes(2, "big") + b"\x00\x0a"
        ]
        assert {(hello["name"], hello["address"]) for hello in hellos} == {(name, f"{name}:5672")}
        assert {hello["wanted"] for hello in hellos} == set("abc") - {name}


def test_a_connection_never_adds_a_member() -> None:
    """Line 35: "amq_cluster then adds to peer list if not already known". Here only an operator adds
    servers: if a connection could, two halves could each find themselves in the majority.
    """
    cluster = Cluster()
    cluster.elected("a")
    cluster.add_host("d", cluster.bootstrap("abcd"))
    cluster.run(10)
    for name in "abc":
        assert [member.name for member in cluster.status(name).members] == ["a", "b", "c"]
        assert cluster.status(name).votes[2] == 3
    assert cluster.status("d").role == "joining"
    root = cluster.hosts["a"]
    assert root.election.add_member("d", "d:5672", root.now()) == ""
    cluster.elected("a")
    assert cluster.status("c").votes[2] == 4


def test_a_newer_link_of_the_same_server_replaces_the_older_one() -> None:
    """Line 36: "may create multiple peer links back to same server". Line 37: "duplicates are removed
    when peer becomes active". Line 38: "no active duplicates in peer list".
    """
    cluster = Cluster()
    root = cluster.elected("a")
    # The others have not noticed yet that it is gone when it connects again.
    cluster.die_silently("c")
    cluster.hosts["c"].revive()

    def told_to_go() -> int:
        return sum(b"a newer link of the same server" in tap.written for tap in root.taps)

    assert told_to_go() == 0
    # Long before the silence of the older one would end it.
    cluster.until(lambda: told_to_go() == 1, 1)
    cluster.elected("a")
    cluster.run(15)
    assert told_to_go() == 1
    assert living_lines(cluster) == pairs("abc")


# The root is known.


def test_each_server_knows_which_peer_is_root() -> None:
    """Line 41: "each cluster controller knows which peer is root"."""
    cluster = Cluster()
    for name in "ab":
        cluster.elected(name)
        assert {cluster.status(other).root for other in cluster.up()} == {name}
        cluster.hosts[name].die()
        if name == "a":
            cluster.elected("b")
            cluster.hosts["a"].revive()


def test_a_server_that_becomes_root_announces_it_to_all_peers() -> None:
    """Line 42: "when server decides to become root it announces the fact". Line 43: "Cluster.Root
    method to all peers". Nobody else says ROOT.
    """
    cluster = Cluster("abcde")
    cluster.elected("a")
    assert [name for name, host in cluster.hosts.items() if ROOT in kinds(host)] == ["a"]
    announcing = [
        tap
        for tap in cluster.hosts["a"].taps
        if any(method[:5] == ROOT_METHOD for method in methods_in(tap.written))
    ]
    assert len(announcing) == 4


ROOT_METHOD = m.ClusterControl(ROOT).encode()


def test_a_new_peer_learns_of_the_root_before_it_has_the_state() -> None:
    """Line 44: "new peer gets root information via state replication". Here with the next heartbeat
    of the root, so that it knows whom to ask for the state.
    """
    cluster = Cluster()
    cluster.elected("a")
    cluster.hosts["c"].die()
    # Until it has left the in-sync set, so that it needs more than the first word of the root.
    cluster.run(2 * TIMING.in_sync_ms / 1000)
    cluster.hosts["c"].revive()
    cluster.until(lambda: cluster.status("c").root == "a")
    assert cluster.status("c").role in {"joining", "catchup"}
    cluster.elected("a")


# Method wrapping.


def test_what_the_root_does_is_wrapped_into_cluster_class_content() -> None:
    """Line 48: "server method is wrapped as binary bucket". Line 49: "placed into cluster-class
    content". Here the bucket is an operation: everything that one tick changed.
    """
    cluster = Cluster()
    client = cluster.client()
    before = len(cluster.hosts["a"].messages())
    client.call(m.QueueDeclare("wrapped", durable=True))
    cluster.settle()
    written = cluster.hosts["a"].messages()
    assert any(one.method_id == STREAM and one.kind == OP for one in written)
    assert len(written) > before
    assert m.QueueDeclare("wrapped", durable=True).encode() not in b"".join(
        bytes(tap.written) for tap in cluster.hosts["a"].taps
    )
    assert all(one.method_id == (CONTROL if one.kind >= 20 else STREAM) for one in written)


def test_operations_go_from_the_root_to_all() -> None:
    """Line 50: "primary-> all". Backups send no operations, and the octets are the same for all."""
    cluster = Cluster("abcde")
    client = cluster.client()
    client.call(m.QueueDeclare("everywhere", durable=True))
    cluster.settle()
    senders = {name for name, host in cluster.hosts.items() if kinds(host) & {OP, SYNC}}
    assert senders == {"a"}
    carrying = [tap for tap in cluster.hosts["a"].taps if b'"everywhere"' in tap.written]
    assert len(carrying) == 4
