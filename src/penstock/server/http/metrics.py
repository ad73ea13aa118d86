"""Prometheus' pages: totals at `/metrics`, a series per queue at `/metrics/per-queue`.

The figures come from the broker's loop; the text is made here, off it. Ten thousand queues make a
text of five megabytes, and making it costs time of the interpreter that the broker's thread shares,
so the page that is asked every few seconds has totals only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

import penstock
from penstock.builds import build_mode
from penstock.server.http.login import WATCHERS, Doorkeeper
from penstock.server.http.survey import Figures, QueueFigures, Surveyor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric
    from starlette.requests import Request

    from penstock.server.http.line import BrokerLine


class MetricsPages:
    """Held by the application."""

    def __init__(self, line: BrokerLine, door: Doorkeeper) -> None:
        self._line = line
        self._door = door
        self._surveyor = Surveyor()

    async def totals(self, request: Request) -> Response:
        return await self._page(request, is_per_queue=False)

    async def per_queue(self, request: Request) -> Response:
        """`?vhost=NAME` shows the queues of one virtual host."""
        return await self._page(request, is_per_queue=True)

    async def _page(self, request: Request, is_per_queue: bool) -> Response:
        caller = await self._door.let_in(request)
        caller.need_one_of(WATCHERS)
        vhost = request.query_params.get("vhost")
        figures = await self._line.walk(
            lambda node: self._surveyor.survey(node, is_per_queue, vhost)
        )
        registry = CollectorRegistry()
        registry.register(FiguresCollector(figures))
        ProcessCollector(namespace="penstock", registry=registry)
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        # In a thread, so that bulk reads and WebSockets go on beside a long text.
        text = await run_in_threadpool(encode, registry)
        return Response(text, media_type=content_type)


class FiguresCollector(Collector):
    """One survey in Prometheus' words."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        figures = self._figures
        yield InfoMetricFamily(
            "penstock_build",
            "Version and build",
            {"version": penstock.__version__, "build": build_mode()},
        )
        for name, text, value in (
            ("connections", "Client connections, including WebSockets", figures.connections),
            ("channels", "Open AMQP 0-9-1 channels", figures.channels),
            ("vhosts", "Virtual hosts", figures.vhosts),
            ("queues", "Queues and streams", figures.queues),
            ("consumers", "Consumers of all queues", figures.consumers),
            ("messages_ready", "Ready messages in queues, without streams", figures.ready),
            (
                "messages_unacknowledged",
                "Messages delivered to consumers and not yet acknowledged",
                figures.unacknowledged,
            ),
            (
                "publishers_blocked",
                "1 while an alarm blocks publishers",
                int(bool(figures.alarm)),
            ),
            (
                "memory_held_bytes",
                "Bytes of messages and buffers in memory; the memory alarm uses this value",
                figures.held_bytes,
            ),
        ):
            yield GaugeMetricFamily(f"penstock_{name}", text, value=value)
        for name, text, value in (
            ("messages_published", "Messages enqueued, counted once per queue", figures.published),
            ("messages_delivered", "Messages delivered to consumers", figures.delivered),
            ("messages_acknowledged", "Messages acknowledged", figures.acknowledged),
            ("messages_redelivered", "Messages redelivered", figures.redelivered),
            ("connections_opened", "Connections opened", figures.connections_opened),
            ("connections_closed", "Connections closed", figures.connections_closed),
            ("channels_opened", "AMQP 0-9-1 channels opened", figures.channels_opened),
            ("queues_declared", "Queues and streams declared", figures.queues_declared),
            ("queues_deleted", "Queues and streams deleted", figures.queues_deleted),
        ):
            yield CounterMetricFamily(f"penstock_{name}", text, value=value)
        yield from self._journal()
        yield from self._streams()
        if figures.per_queue:
            yield from _per_queue(figures.per_queue)

    def _journal(self) -> Iterator[Metric]:
        if self._figures.journal is None:
            return
        position, safe, size, segments = self._figures.journal
        yield CounterMetricFamily(
            "penstock_journal_written_bytes", "Bytes written to the journal", position
        )
        yield CounterMetricFamily(
            "penstock_journal_safe_bytes", "Bytes of the journal that are durable", safe
        )
        yield GaugeMetricFamily("penstock_journal_bytes", "Size of the journal files on disk", size)
        yield GaugeMetricFamily("penstock_journal_segments", "Number of journal segments", segments)

    def _streams(self) -> Iterator[Metric]:
        labels = ["vhost", "stream"]
        first = GaugeMetricFamily(
            "penstock_stream_first_offset", "First offset in the stream", labels=labels
        )
        end = GaugeMetricFamily(
            "penstock_stream_safe_end_offset",
            "All messages before this offset are durable",
            labels=labels,
        )
        size = GaugeMetricFamily(
            "penstock_stream_bytes", "Size of the stream on disk", labels=labels
        )
        by_cursor = [*labels, "cursor"]
        offset = GaugeMetricFamily(
            "penstock_stream_cursor_offset", "Next offset of the cursor's reader", labels=by_cursor
        )
        lag = GaugeMetricFamily(
            "penstock_stream_cursor_lag",
            "Messages from the cursor's offset to the end of the stream",
            labels=by_cursor,
        )
        for stream in self._figures.streams:
            place = [_label(stream.vhost), _label(stream.name)]
            first.add_metric(place, stream.first_offset)
            end.add_metric(place, stream.safe_end_offset)
            size.add_metric(place, stream.size)
            for cursor, at, behind in stream.cursors:
                offset.add_metric([*place, _label(cursor)], at)
                lag.add_metric([*place, _label(cursor)], behind)
        yield from (first, end, size, offset, lag)
        yield GaugeMetricFamily(
            "penstock_streams_left_out",
            "Streams omitted from this page; see the metrics per queue",
            value=self._figures.streams_left_out,
        )


def _per_queue(queues: list[QueueFigures]) -> Iterator[Metric]:
    labels = ["vhost", "queue"]
    places = [[_label(queue.vhost), _label(queue.name)] for queue in queues]
    for name, text, attribute in (
        ("messages_ready", "Messages ready", "ready"),
        (
            "messages_unacknowledged",
            "Messages delivered to consumers and not yet acknowledged",
            "unacknowledged",
        ),
        ("consumers", "Consumers", "consumers"),
    ):
        gauge = GaugeMetricFamily(f"penstock_queue_{name}", text, labels=labels)
        for queue, place in zip(queues, places, strict=True):
            gauge.add_metric(place, getattr(queue, attribute))
        yield gauge
    for name, text in (
        ("published", "Messages enqueued"),
        ("delivered", "Messages delivered to consumers"),
        ("acknowledged", "Messages acknowledged"),
        ("redelivered", "Messages redelivered"),
    ):
        counter = CounterMetricFamily(f"penstock_queue_messages_{name}", text, labels=labels)
        for queue, place in zip(queues, places, strict=True):
            counter.add_metric(place, getattr(queue, name))
        yield counter


def _label(name: str) -> str:
    """Names may hold octets that are no UTF-8; one of them must not spoil the page."""
    return name.encode(errors="backslashreplace").decode()
