"""What the catalog of ledgers says about each queue, as arrays for the tasks that judge positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.spark.jobs.findings import Circumstances
from penstock.spark.jobs.ledger_catalog import Role

if TYPE_CHECKING:
    import numpy.typing as npt

    from penstock.spark.jobs.ledger_catalog import Catalog, KnownQueue
    from penstock.spark.jobs.ledger_terms import KnownCluster

Name = tuple[str, str]


def circumstances(catalog: Catalog) -> Circumstances:
    queues = catalog.queues
    size = len(queues)
    starts = max(catalog.start_counts.values(), default=1)
    kept, truncated, unknown_after = (np.zeros((size, starts), dtype=bool) for _ in range(3))
    for queue in queues:
        cluster = catalog.clusters.get(queue.server)
        if cluster is None:
            truncated[queue.number, 0] = queue.server in catalog.truncated
            kept[queue.number, sorted(queue.survived)] = True
        else:
            _enter_cluster(queue, cluster, kept, truncated, unknown_after)
    streams = {_name(queue) for queue in queues if queue.is_stream}
    last = [catalog.start_counts.get(queue.server, 1) - 1 for queue in queues]
    since, elsewhere = _gaps_by_name(catalog)
    return Circumstances(
        last_start=np.array(last, dtype=np.int32),
        kept=kept,
        truncated=truncated,
        unknown_after=unknown_after,
        replicated=np.array([queue.is_replicated for queue in queues], dtype=bool),
        stream=np.array([queue.is_stream for queue in queues], dtype=bool),
        client=np.array([queue.role is Role.CLIENT for queue in queues], dtype=bool),
        kept_by_stream=np.array([_name(queue) in streams for queue in queues], dtype=bool),
        known_since=np.array([since.get(_name(queue), 0) for queue in queues], dtype=np.int64),
        may_be_elsewhere=np.array([_name(queue) in elsewhere for queue in queues], dtype=bool),
    )


def _name(queue: KnownQueue) -> Name:
    """The clients' and all servers' queue of that name are one."""
    return (queue.vhost, queue.queue)


def _enter_cluster(
    queue: KnownQueue,
    cluster: KnownCluster,
    kept: npt.NDArray[np.bool_],
    truncated: npt.NDArray[np.bool_],
    unknown_after: npt.NDArray[np.bool_],
) -> None:
    for place, term in enumerate(cluster.terms):
        truncated[queue.number, place] = not term.has_begin
        if queue.is_replicated:
            # A queue that the next root does not have, though nobody deleted it, is lost as well.
            kept[queue.number, place] = True
            unknown_after[queue.number, place] = cluster.is_unknown_after(place)


def _gaps_by_name(catalog: Catalog) -> tuple[dict[Name, int], set[Name]]:
    """The time from which on the ledgers that have a queue are there; queues of clusters of which a
    ledger is missing after that.
    """
    since: dict[Name, int] = {}
    elsewhere: set[Name] = set()
    for queue in catalog.queues:
        if queue.role is not Role.QUEUE:
            continue
        cluster = catalog.clusters.get(queue.server)
        begins = catalog.truncated.get(queue.server, 0) if cluster is None else cluster.since
        if begins:
            since[_name(queue)] = max(since.get(_name(queue), 0), begins)
        if cluster is not None and not cluster.is_whole:
            elsewhere.add(_name(queue))
    return since, elsewhere
