"""The figures of a cluster member in Prometheus' words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from penstock.server.http.survey import Figures

# One of them is 1.
ROLES: Final = ("joining", "catchup", "ready", "candidate", "recovering", "active")


def cluster_families(figures: Figures) -> Iterator[Metric]:
    """None without a cluster."""
    status = figures.cluster
    if status is None:
        return
    yield GaugeMetricFamily(
        "penstock_cluster_epoch", "The election that this server knows of", value=status.epoch
    )
    role = GaugeMetricFamily(
        "penstock_cluster_role", "1 for the role that this server has", labels=["role"]
    )
    for name in ROLES:
        role.add_metric([name], 1 if name == status.role else 0)
    yield role
    yield CounterMetricFamily(
        "penstock_cluster_role_changes",
        "Changes of this server's role",
        figures.cluster_role_changes,
    )
    yield GaugeMetricFamily(
        "penstock_cluster_members", "Servers in the cluster", value=len(status.members)
    )
    yield GaugeMetricFamily(
        "penstock_cluster_in_sync_members",
        "Servers that have everything that was confirmed",
        value=sum(member.in_sync for member in status.members),
    )
    yield GaugeMetricFamily(
        "penstock_cluster_lease_seconds",
        "How long this server may still serve as the root; 0 on others",
        value=status.lease_ms / 1000,
    )
    yield GaugeMetricFamily(
        "penstock_cluster_committed_operations",
        "The last committed operation of the epoch, as far as this server knows",
        value=status.committed,
    )
    yield GaugeMetricFamily(
        "penstock_cluster_confirms_waiting",
        "1 while too few servers have everything, so that nothing is confirmed",
        value=int(bool(figures.cluster_waits)),
    )
    yield CounterMetricFamily(
        "penstock_cluster_in_sync_changes",
        "Changes of the in-sync set",
        figures.cluster_in_sync_changes,
    )
    yield CounterMetricFamily(
        "penstock_cluster_fetched_bytes",
        "What this server has fetched to be in sync again: ids, definitions, missing messages",
        status.fetched_bytes,
    )
    yield from _lags(figures)


def _lags(figures: Figures) -> Iterator[Metric]:
    """Only the root knows them."""
    status = figures.cluster
    assert status is not None, "asked by `cluster_families`"
    operations = GaugeMetricFamily(
        "penstock_cluster_lag_operations",
        "Operations that a server has not acknowledged yet",
        labels=["server"],
    )
    octets = GaugeMetricFamily(
        "penstock_cluster_lag_bytes",
        "Bytes of operations that a server has not acknowledged yet",
        labels=["server"],
    )
    for member in status.members:
        if member.lag_operations >= 0:
            operations.add_metric([member.name], member.lag_operations)
            octets.add_metric([member.name], member.lag_bytes)
    yield operations
    yield octets
