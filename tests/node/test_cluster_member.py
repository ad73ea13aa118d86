"""Servers of a cluster, joined by the node."""

from dataclasses import replace

from penstock.broker.events import EventKind
from penstock.broker.topology import AddVhost
from penstock.cluster.messages import RECORD, ControlMessage, encode_message
from penstock.ha.messages import JOIN
from tests.node.cluster_world import SECOND, ClusterHost, ClusterWorld


def test_a_join_to_a_server_that_is_not_the_root_leaves_the_link() -> None:
    """Votes travel over it. A backup that has not heard of the end of its root joins again and
    again, so nobody would ever be elected.
    """
    world = ClusterWorld()
    world.run(3)
    backup, other = [name for name in world.hosts if name not in world.roots()]
    line = next(line for line in world.network.lines() if line.ends == (other, backup))
    host = world.hosts[backup]
    host.member.received(other, other.encode() * 16, JOIN, b"", host.now())
    host.schedule_flush()
    world.run(0.5)
    assert not line.is_over


def test_a_server_that_is_left_alone_names_no_root() -> None:
    world = ClusterWorld()
    world.run(3)
    [root] = world.roots()
    last = next(name for name in world.hosts if name != root)
    for name in world.hosts:
        if name != last:
            world.network.divide(name, last, world.clock.microseconds + 60 * SECOND)
            world.network.divide(last, name, world.clock.microseconds + 60 * SECOND)
    world.run(10)
    member = world.hosts[last].member
    status = member.status(world.hosts[last].now())
    assert (status.root, status.root_address, status.expected_root) == ("", "", "")
    assert status.votes == (0, 1, 3)
    assert {one.role for one in status.members if one.name != last} == {"disconnected"}


def link_ends(host: ClusterHost, name: str) -> list[str]:
    """Why links between this server and another one have ended."""
    return [
        event.reason
        for event in host.events.events
        if event.kind is EventKind.PEER_LINK_CLOSED and event.facts["server"] == name
    ]


def test_a_peer_that_contradicts_the_record_loses_its_link_and_harms_nobody() -> None:
    world = ClusterWorld()
    world.run(3)
    assert world.roots() == ["a"]
    a, b, c = (world.hosts[name] for name in "abc")
    known = c.election.record
    assert known.in_sync == ("a", "b", "c")
    other = replace(known, in_sync=("a", "b"))
    message = ControlMessage(RECORD, known.cluster_id, known.epoch, other)
    assert b.member.links is not None
    b.member.links.send("c", RECORD, encode_message(message))
    b.schedule_flush()
    world.run(3)
    [here] = link_ends(c, "b")
    [there] = link_ends(b, "c")
    assert here == there
    assert here.endswith("replace the one that differs from the other members")
    # The link is there again, and nothing was forgotten or taken over.
    assert c.life == 1
    assert c.member.links is not None
    assert c.member.links.connected() == ["a", "b"]
    assert world.roots() == ["a"]
    assert c.election.record == known == a.election.record
    a.node.apply(AddVhost("after"), a.now())
    a.schedule_flush()
    world.run(1)
    assert all("after" in host.node.state.vhosts for host in (a, b, c))
