"""Servers of a cluster, joined by the node."""

from penstock.ha.messages import JOIN
from tests.node.cluster_world import SECOND, ClusterWorld


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
