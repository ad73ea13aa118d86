"""Servers of a cluster, joined by the node."""

from penstock.ha.messages import JOIN
from tests.node.cluster_world import ClusterWorld


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
