"""The node and its process: /api/nodes. There is one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.concurrency import run_in_threadpool

import penstock
from penstock.broker.definitions.exporting import FORM
from penstock.server.descriptors import limit
from penstock.server.http.api.node_facts import contexts, exchange_types, mechanisms
from penstock.server.http.api.operation import MONITORING, Operation, RowList
from penstock.server.http.api.sampler import CHURN, MESSAGES, PROCESS, TOTAL, total_numbers
from penstock.server.http.api.samples import NODE_STATS
from penstock.server.http.api.schema import BOOLEAN, COUNT, TABLE, TEXT, list_of
from penstock.server.http.api.stats import (
    SPAN_QUERIES,
    put_details,
    row_schema,
    spans_of,
    with_details,
)
from penstock.server.http.api.totals import totals_of
from penstock.server.http.api.visibility import not_found
from penstock.server.memory import can_watch, resident_bytes

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.node.node import Node
    from penstock.server.http.api.listing import Row
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.api.sampler import Sampler
    from penstock.server.http.api.samples import Spans
    from penstock.server.http.line import BrokerLine

_DESCRIPTORS: Final = Path("/proc/self/fd")

_NODE: Final = row_schema(
    {
        "applications": list_of(TABLE),
        "auth_mechanisms": list_of(TABLE),
        "cluster_links": list_of(TABLE),
        "config_files": list_of(TEXT),
        "contexts": list_of(TABLE),
        "db_dir": TEXT,
        "disk_free": COUNT,
        "disk_free_alarm": BOOLEAN,
        "disk_free_limit": COUNT,
        "enabled_plugins": list_of(TEXT),
        "exchange_types": list_of(TABLE),
        "fd_total": COUNT,
        "fd_used": COUNT,
        "log_files": list_of(TEXT),
        "mem_alarm": BOOLEAN,
        "mem_calculation_strategy": TEXT,
        "mem_limit": COUNT,
        "name": TEXT,
        "os_pid": TEXT,
        "partitions": list_of(TEXT),
        "proc_total": COUNT,
        "proc_used": COUNT,
        "processors": COUNT,
        "rates_mode": TEXT,
        "run_queue": COUNT,
        "running": BOOLEAN,
        "sockets_total": COUNT,
        "type": TEXT,
        "uptime": COUNT,
        **with_details((*CHURN, *PROCESS)),
    }
)
_CHURN_BEGINS: Final = len(MESSAGES)


class NodePages:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine, sampler: Sampler, data: Path | None) -> None:
        self._line = line
        self._sampler = sampler
        self._data = data

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "GET",
                "/api/nodes",
                self.listed,
                "The nodes of the broker",
                "broker",
                MONITORING,
                answer=_NODE,
                is_list=True,
                queries=SPAN_QUERIES,
            ),
            Operation(
                "GET",
                "/api/nodes/{name}",
                self.show,
                "A node",
                "broker",
                MONITORING,
                answer=_NODE,
                queries=SPAN_QUERIES,
            ),
            Operation(
                "GET",
                "/api/nodes/{name}/memory",
                self.memory,
                "What the memory of a node is used for",
                "broker",
                MONITORING,
                answer=row_schema({"memory": TABLE}),
            ),
        ]

    async def listed(self, call: ApiRequest) -> object:
        return RowList([await self._node(call)])

    async def show(self, call: ApiRequest) -> object:
        row = await self._node(call)
        self._check_name(call, str(row["name"]))
        return row

    async def memory(self, call: ApiRequest) -> object:
        name, held = await self._line.ask(
            lambda node, now: (node.configuration.cluster_name, node.last_held_bytes)
        )
        self._check_name(call, name)
        resident = resident_bytes() if can_watch() else held
        return {
            "memory": {
                "queue_procs": held,
                "other_system": max(resident - held, 0),
                "strategy": "rss",
                "total": {"allocated": resident, "erlang": 0, "rss": resident},
            }
        }

    def _check_name(self, call: ApiRequest, name: str) -> None:
        if call.named("name") != name:
            raise not_found("node", call.named("name"))

    async def _node(self, call: ApiRequest) -> Row:
        self._sampler.begin()
        spans = spans_of(call)
        row = await self._line.walk(lambda node: self._row(node, call, spans))
        row.update(await run_in_threadpool(_files, self._data))
        row["contexts"] = contexts(call)
        return row

    def _row(self, node: Node, call: ApiRequest, spans: Spans) -> Generator[None, None, Row]:
        """On the broker's loop."""
        totals = yield from totals_of(node, call.caller)
        server = self._line.server
        row: Row = {
            "applications": [
                {
                    "name": "penstock",
                    "description": "Penstock",
                    "version": penstock.__version__,
                },
                {
                    "name": "rabbitmq_management",
                    "description": "RabbitMQ's management API, in Penstock",
                    "version": FORM,
                },
            ],
            "auth_mechanisms": mechanisms(),
            "cluster_links": [],
            "config_files": [],
            "disk_free_alarm": bool(node.alarms.get("disk")),
            "disk_free_limit": server.disk_bytes_min,
            "enabled_plugins": ["rabbitmq_management"],
            "exchange_types": exchange_types(),
            "log_files": [],
            "mem_alarm": bool(node.alarms.get("memory")),
            "mem_calculation_strategy": "rss",
            "mem_limit": server.memory_bytes_max,
            "name": node.configuration.cluster_name,
            "os_pid": str(os.getpid()),
            "partitions": [],
            "rates_mode": "basic",
            "run_queue": 0,
            "running": True,
            "sockets_total": node.configuration.connections_max,
            "type": "ram" if node.stored is None else "disc",
            "uptime": server.now() - server.began,
        }
        numbers = total_numbers(node, totals.sums(), totals.confirmed)
        history = self._sampler.of_everything(not spans.is_empty)
        span = spans.of(NODE_STATS)
        put_details(row, TOTAL, numbers, history, span, _CHURN_BEGINS, len(TOTAL))
        return row


def _files(data: Path | None) -> Row:
    """What the system says; not asked for on the broker's loop."""
    row: Row = {
        "db_dir": "" if data is None else str(data),
        "fd_total": limit(),
        "proc_total": 1,
        "proc_used": 1,
        "processors": os.cpu_count() or 1,
    }
    if _DESCRIPTORS.exists():
        row["fd_used"] = sum(1 for _ in _DESCRIPTORS.iterdir())
    free = os.statvfs("/" if data is None else data)
    row["disk_free"] = free.f_bavail * free.f_frsize
    return row
