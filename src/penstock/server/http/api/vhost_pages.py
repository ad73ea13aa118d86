"""Virtual hosts, as far as they are looked at: /api/vhosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.server.http.api.operation import Operation, RowList
from penstock.server.http.api.sampler import CONNECTION, LENGTH_COUNT, QUEUE, VHOST
from penstock.server.http.api.samples import DATA_RATES
from penstock.server.http.api.schema import BOOLEAN, TABLE, TEXT, list_of, object_of
from penstock.server.http.api.stats import (
    SPAN_QUERIES,
    put_details,
    put_queue_numbers,
    row_schema,
    spans_of,
    with_details,
)
from penstock.server.http.api.totals import totals_of
from penstock.server.http.api.visibility import visible_vhost

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.node.node import Node
    from penstock.server.http.api.listing import Row
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.api.sampler import Sampler
    from penstock.server.http.api.samples import Spans
    from penstock.server.http.line import BrokerLine
    from penstock.server.http.login import Caller

# What RabbitMQ says where none is set.
_UNDEFINED: Final = "undefined"

_ROW: Final = row_schema(
    {
        "cluster_state": TABLE,
        "default_queue_type": TEXT,
        "description": TEXT,
        "message_stats": object_of({}, with_details(QUEUE[LENGTH_COUNT:])),
        **with_details(QUEUE[:LENGTH_COUNT]),
        "metadata": TABLE,
        "name": TEXT,
        **with_details(CONNECTION),
        "tags": list_of(TEXT),
        "tracing": BOOLEAN,
    }
)


class VhostPages:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine, sampler: Sampler) -> None:
        self._line = line
        self._sampler = sampler

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "GET",
                "/api/vhosts",
                self.listed,
                "All virtual hosts",
                "virtual hosts",
                answer=_ROW,
                is_list=True,
                queries=SPAN_QUERIES,
            ),
            Operation(
                "GET",
                "/api/vhosts/{name}",
                self.show,
                "A virtual host",
                "virtual hosts",
                answer=_ROW,
                queries=SPAN_QUERIES,
            ),
        ]

    async def listed(self, call: ApiRequest) -> object:
        self._sampler.begin()
        spans = spans_of(call)
        return RowList(await self._line.walk(lambda node: self._rows(node, call.caller, "", spans)))

    async def show(self, call: ApiRequest) -> object:
        self._sampler.begin()
        spans = spans_of(call)
        name = call.named("name")
        await self._line.ask(lambda node, now: visible_vhost(node, call.caller, name))
        found = await self._line.walk(lambda node: self._rows(node, call.caller, name, spans))
        return found[0]

    def _rows(
        self, node: Node, caller: Caller, name: str, spans: Spans
    ) -> Generator[None, None, list[Row]]:
        """On the broker's loop. Virtual hosts are few beside queues."""
        totals = yield from totals_of(node, caller, name)
        rows: list[Row] = []
        for vhost, numbers in totals.by_vhost.items():
            row = _described(node, vhost)
            history = self._sampler.of_vhost(vhost, not spans.is_empty)
            put_queue_numbers(row, QUEUE, numbers[: len(QUEUE)], history, spans)
            span = spans.of(DATA_RATES)
            put_details(row, VHOST, numbers, history, span, len(QUEUE), len(VHOST))
            rows.append(row)
            if len(rows) % STEP_COUNT == 0:
                yield
        return rows


# Virtual hosts in one step on the broker's loop.
STEP_COUNT: Final = 50


def _described(node: Node, name: str) -> Row:
    vhost = node.state.vhosts.get(name)
    if vhost is None:
        # It went while its queues were counted.
        return {"name": name}
    tags = list(vhost.tags)
    return {
        "cluster_state": {node.configuration.cluster_name: "running"},
        "default_queue_type": vhost.default_queue_type or _UNDEFINED,
        "description": vhost.description,
        "metadata": {"description": vhost.description, "tags": tags},
        "name": name,
        "tags": tags,
        "tracing": False,
    }
