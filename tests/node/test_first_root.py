"""Which server is the first root of a new cluster: what docs/CLUSTER.md says of it, in the shipped times."""

import pytest

from penstock.cluster.timing import Timing
from tests.seeds.cluster_doubles import Cluster

# How much later than the first of its juniors the most senior server may start.
IN_TIME_SECONDS = 0.4


def started(**seconds: float) -> Cluster:
    """Three new servers, of which those that are named start so much later."""
    cluster = Cluster(timing=Timing())
    for name in seconds:
        cluster.hosts[name].die()
    now = 0.0
    for name in sorted(seconds, key=seconds.__getitem__):
        cluster.run(seconds[name] - now)
        now = seconds[name]
        cluster.hosts[name].revive()
    return cluster


@pytest.mark.parametrize(
    "seconds",
    [{}, {"b": 1.0}, {"b": 0.6, "c": 3.0}, {"c": 0.6, "b": 1.2}, {"b": 5.0, "c": 10.0}],
    ids=str,
)
def test_the_most_senior_server_is_the_first_root_if_it_is_started_first(
    seconds: dict[str, float],
) -> None:
    assert started(**seconds).elected().name == "a"


@pytest.mark.parametrize(
    "seconds",
    [{"a": IN_TIME_SECONDS}, {"a": IN_TIME_SECONDS, "c": 0.2}, {"a": 0.2, "b": IN_TIME_SECONDS}],
    ids=str,
)
def test_it_may_be_started_a_little_later(seconds: dict[str, float]) -> None:
    assert started(**seconds).elected().name == "a"


def test_a_most_senior_server_that_comes_too_late_is_a_backup_until_it_is_handed_the_role() -> None:
    cluster = started(a=3.0)
    root = cluster.elected()
    assert root.name == "b"
    assert cluster.status("a").role == "ready"
    # Nobody takes the role away from a root that is there.
    epoch = cluster.status("b").epoch
    cluster.run(60)
    assert (cluster.roots(), cluster.status("b").epoch) == (["b"], epoch)
    cluster.hand_over("a")
