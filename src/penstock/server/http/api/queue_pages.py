"""Queues: /api/queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.server.http.api.connection_pages import Wanted, consumers_of
from penstock.server.http.api.operation import Operation, Query, RecordList
from penstock.server.http.api.queue_rows import (
    QUEUE_SCHEMA,
    QUEUE_WITH_CONSUMERS,
    PolicyChoice,
    QueueRecord,
    ShortQueueRecord,
)
from penstock.server.http.api.stats import SPAN_QUERIES, spans_of
from penstock.server.http.api.visibility import (
    is_listed,
    not_found,
    visible_vhost,
    visible_vhosts,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.node.node import Node
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.api.sampler import Sampler
    from penstock.server.http.api.samples import Spans
    from penstock.server.http.line import BrokerLine
    from penstock.server.http.login import Caller

# Queues in one step on the broker's loop: less than a millisecond.
STEP_COUNT: Final = 100

_QUERIES: Final = (
    *SPAN_QUERIES,
    Query("disable_stats", "true leaves out everything that is counted."),
)


class MessageQueuePages:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine, sampler: Sampler) -> None:
        self._line = line
        self._sampler = sampler

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "GET",
                path,
                self.listed,
                summary,
                "queues",
                answer=QUEUE_SCHEMA,
                is_list=True,
                queries=_QUERIES,
            )
            for path, summary in (
                ("/api/queues", "All queues and streams"),
                ("/api/queues/{vhost}", "The queues and streams of one virtual host"),
            )
        ] + [
            Operation(
                "GET",
                "/api/queues/{vhost}/{name}",
                self.show,
                "A queue or stream",
                "queues",
                answer=QUEUE_WITH_CONSUMERS,
                queries=_QUERIES,
            )
        ]

    async def listed(self, call: ApiRequest) -> object:
        self._sampler.begin()
        spans = spans_of(call)
        vhost = call.named("vhost") if "vhost" in call.request.path_params else ""
        found = await self._line.walk(lambda node: self._records(node, call.caller, vhost, spans))
        if call.query("disable_stats") == "true":
            return RecordList([ShortQueueRecord(record) for record in found])
        return RecordList(found)

    async def show(self, call: ApiRequest) -> object:
        self._sampler.begin()
        spans = spans_of(call)
        vhost, name = call.named("vhost"), call.named("name")
        record = await self._line.ask(
            lambda node, now: self._record(node, call.caller, vhost, name, spans)
        )
        if call.query("disable_stats") == "true":
            return record.short_row()
        wanted = Wanted(call.caller, vhost)
        consumers = await self._line.walk(lambda node: consumers_of(node, wanted))
        rows = [consumer.row() for consumer in consumers if consumer.is_of_queue(name)]
        # RabbitMQ has these figures in another mode only, and its clients read the lists.
        return {**record.row(), "consumer_details": rows, "deliveries": [], "incoming": []}

    # On the broker's loop.

    def _record(
        self, node: Node, caller: Caller, vhost: str, name: str, spans: Spans
    ) -> QueueRecord:
        host = visible_vhost(node, caller, vhost)
        queue = host.queues.get(name)
        if queue is None or not is_listed(queue):
            raise not_found("queue", name)
        now = self._line.server.now()
        return QueueRecord(node, host, queue, PolicyChoice(host), self._sampler, spans, now)

    def _records(
        self, node: Node, caller: Caller, vhost: str, spans: Spans
    ) -> Generator[None, None, list[QueueRecord]]:
        found: list[QueueRecord] = []
        for host in visible_vhosts(node, caller, vhost):
            choice = PolicyChoice(host)
            for queue in list(host.queues.values()):
                if not is_listed(queue):
                    continue
                now = self._line.server.now()
                found.append(QueueRecord(node, host, queue, choice, self._sampler, spans, now))
                if len(found) % STEP_COUNT == 0:
                    yield
        return found
