"""The metrics of a cluster member."""

from __future__ import annotations

from penstock.node.cluster_status import ClusterStatus, MemberStatus
from penstock.server.http.cluster_families import cluster_families
from penstock.server.http.survey import Figures

MEMBERS = (
    MemberStatus("a", "a:1", "active", True, 0, 0, True, True),
    MemberStatus("b", "b:1", "catchup", False, 7, 900, True, True),
    MemberStatus("c", "c:1", "unknown", True, -1, -1, False, True),
)
STATUS = ClusterStatus(
    "a", "id", 4, "active", "a", "a:1", MEMBERS, 12, 1400, "a", (2, 2, 3), "because", 0, 5000
)


def samples(figures: Figures) -> dict[str, float]:
    return {
        f"{sample.name}{''.join(sample.labels.values())}": sample.value
        for family in cluster_families(figures)
        for sample in family.samples
    }


def test_a_server_without_a_cluster_has_none() -> None:
    assert samples(Figures()) == {}


def test_the_role_the_lease_and_the_lags_are_told() -> None:
    found = samples(Figures(cluster=STATUS, cluster_role_changes=3))
    assert found["penstock_cluster_epoch"] == 4
    assert found["penstock_cluster_roleactive"] == 1
    assert found["penstock_cluster_roleready"] == 0
    assert found["penstock_cluster_role_changes_total"] == 3
    assert found["penstock_cluster_in_sync_members"] == 2
    assert found["penstock_cluster_members"] == 3
    assert found["penstock_cluster_lease_seconds"] == 1.4
    assert found["penstock_cluster_committed_operations"] == 12
    assert found["penstock_cluster_fetched_bytes_total"] == 5000
    assert found["penstock_cluster_lag_operationsb"] == 7
    assert found["penstock_cluster_lag_bytesb"] == 900
    assert "penstock_cluster_lag_bytesc" not in found
