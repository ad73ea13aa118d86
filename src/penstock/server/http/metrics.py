"""Prometheus' pages, with RabbitMQ's paths.

    /metrics              totals
    /metrics/per-object   the same with a series for each queue, connection and channel
    /metrics/detailed     only what `?family=NAME` asks for, one by one; `?vhost=NAME` limits it
    /metrics/per-queue    totals, and a series for each queue

The figures come from the broker's loop; the text is made here, off it. Ten thousand queues make a
text of five megabytes, and making it takes interpreter time from the broker's thread, so the page
that is scraped every few seconds has totals only.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from prometheus_client import ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from starlette.concurrency import run_in_threadpool

from penstock.server.http.api.pace import Pace
from penstock.server.http.api.pieces import answer_in_pieces
from penstock.server.http.login import WATCHERS, Doorkeeper
from penstock.server.http.metric_families import (
    chosen_totals,
    identity_families,
    object_families,
    total_families,
    written,
)
from penstock.server.http.metric_table import (
    CHANNEL_FAMILIES,
    CONNECTION_FAMILIES,
    NAME_FAMILIES,
    QUEUE_FAMILIES,
    TIME_FAMILY,
)
from penstock.server.http.object_figures import Wanted
from penstock.server.http.survey import Figures, Surveyor, take_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prometheus_client.core import Metric
    from starlette.requests import Request
    from starlette.responses import Response

    from penstock.server.http.line import BrokerLine

_PER_QUEUE: Final = frozenset({"queue_coarse_metrics", "queue_metrics", "penstock_queue_counts"})
# A histogram has more series than all other metrics of its queue together, so it is not among them.
_PER_OBJECT: Final = _PER_QUEUE | {*CONNECTION_FAMILIES, *CHANNEL_FAMILIES}
# The process's own figures that RabbitMQ has a name for.
_PROCESS_NAMES: Final = {
    "penstock_process_open_fds": "rabbitmq_process_open_fds",
    "penstock_process_max_fds": "rabbitmq_process_max_fds",
    "penstock_process_resident_memory_bytes": "rabbitmq_process_resident_memory_bytes",
}


class MetricsPages:
    """Held by the application."""

    def __init__(self, line: BrokerLine, door: Doorkeeper, data: Path | None) -> None:
        self._line = line
        self._door = door
        self._data = data
        self._surveyor = Surveyor()
        self._process = ProcessCollector(namespace="penstock", registry=None)

    async def totals(self, request: Request) -> Response:
        return await self._page(request, frozenset(), is_detailed=False)

    async def per_object(self, request: Request) -> Response:
        """`?vhost=NAME` shows the objects of one virtual host."""
        return await self._page(request, _PER_OBJECT, is_detailed=False)

    async def per_queue(self, request: Request) -> Response:
        return await self._page(request, _PER_QUEUE, is_detailed=False)

    async def detailed(self, request: Request) -> Response:
        """A family that does not exist has no series, as in RabbitMQ."""
        families = frozenset(request.query_params.getlist("family"))
        return await self._page(request, families, is_detailed=True)

    async def _page(
        self, request: Request, families: frozenset[str], is_detailed: bool
    ) -> Response:
        caller = await self._door.let_in(request)
        caller.need_one_of(WATCHERS)
        wanted = _wanted(families, frozenset(request.query_params.getlist("vhost")))
        figures = await self._line.walk(lambda node: self._surveyor.survey(node, wanted))
        await self._line.ask(lambda node, now: take_cluster(node, figures, now))
        encode, content_type = choose_encoder(request.headers.get("accept", ""))

        def text() -> list[bytes]:
            pace = Pace()
            pieces = written(self._families(figures, families, is_detailed, pace), encode, pace)
            pace.free(figures.per_queue)
            pace.free(figures.per_connection)
            pace.free(figures.per_channel)
            return pieces

        # In a thread, so that bulk reads and WebSockets go on beside a long text.
        return answer_in_pieces(await run_in_threadpool(text), content_type)

    def _families(
        self, figures: Figures, families: frozenset[str], is_detailed: bool, pace: Pace
    ) -> Iterator[Metric]:
        yield from identity_families(figures)
        if is_detailed:
            yield from chosen_totals(figures, families)
        else:
            yield from total_families(figures, families)
            yield from self._process_families(figures)
        yield from object_families(figures, families, is_detailed, pace)

    def _process_families(self, figures: Figures) -> Iterator[Metric]:
        for family in self._process.collect():
            name = _PROCESS_NAMES.get(family.name)
            if name is None:
                yield family
            else:
                value = family.samples[0].value
                yield GaugeMetricFamily(name, family.documentation, value=value)
        server = self._line.server
        free = os.statvfs("/" if self._data is None else self._data)
        for name, text, amount in (
            ("process_open_tcp_sockets", "Open connections", figures.connections),
            ("process_max_tcp_sockets", "Limit of connections", figures.connections_max),
            (
                "resident_memory_limit_bytes",
                "Memory above which publishers are blocked",
                server.memory_bytes_max,
            ),
            (
                "disk_space_available_bytes",
                "Free space of the data directory, or of / without one",
                free.f_bavail * free.f_frsize,
            ),
            (
                "disk_space_available_limit_bytes",
                "Free space below which publishers are blocked; 0 without a data directory",
                server.disk_bytes_min,
            ),
        ):
            yield GaugeMetricFamily(f"rabbitmq_{name}", text, value=amount)


def _wanted(families: frozenset[str], vhosts: frozenset[str]) -> Wanted:
    return Wanted(
        queues=not families.isdisjoint({*QUEUE_FAMILIES, TIME_FAMILY}),
        times=TIME_FAMILY in families,
        connections=not families.isdisjoint(CONNECTION_FAMILIES),
        channels=not families.isdisjoint(CHANNEL_FAMILIES),
        names=not families.isdisjoint(NAME_FAMILIES),
        vhosts=vhosts,
    )
