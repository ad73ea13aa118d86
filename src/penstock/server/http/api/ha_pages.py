"""Replication as this server sees it: /api/ha."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from penstock.node.ha_status import ha_status, queue_statuses
from penstock.server.http.api.cluster_pages import member_of
from penstock.server.http.api.operation import Operation, RowList
from penstock.server.http.api.schema import BOOLEAN, COUNT, INTEGER, TEXT, list_of, object_of
from penstock.server.http.api.visibility import is_listed, visible_vhosts

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.node.ha_status import HaStatus, QueueStatus
    from penstock.node.node import Node
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine
    from penstock.server.http.login import Caller

# Queues in one step on the broker's loop, with a row for each server: about a millisecond.
STEP_COUNT: Final = 50

_BACKUP: Final = object_of(
    {
        "name": TEXT,
        "state": TEXT,
        "in_sync": BOOLEAN,
        "sent": INTEGER,
        "acknowledged": INTEGER,
        "first_guarded": INTEGER,
        "lag_operations": COUNT,
        "lag_bytes": COUNT,
        "missing_messages": COUNT,
    }
)
_CHANGE: Final = object_of(
    {
        "ago_ms": COUNT,
        "epoch": COUNT,
        "version": COUNT,
        "in_sync": list_of(TEXT),
        "entered": list_of(TEXT),
        "left": list_of(TEXT),
        "reason": TEXT,
    }
)
_STATUS: Final = object_of(
    {
        "name": TEXT,
        "role": TEXT,
        "state": TEXT,
        "epoch": COUNT,
        "last": INTEGER,
        "committed": INTEGER,
        "missing_messages": COUNT,
        "waiting": TEXT,
        "backups": list_of(_BACKUP),
        "history": list_of(_CHANGE),
    }
)
_QUEUE: Final = object_of(
    {
        "vhost": TEXT,
        "name": TEXT,
        "server": TEXT,
        "state": TEXT,
        "first_guarded": INTEGER,
        "delayed": COUNT,
        "delayed_sent": COUNT,
        "missing": COUNT,
    }
)


class HaPages:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "GET",
                "/api/ha",
                self.show,
                "Replication as this server sees it: its role, its backups, and how the in-sync "
                "set has changed",
                "cluster",
                answer=_STATUS,
            ),
            Operation(
                "GET",
                "/api/ha/queues",
                self.queues,
                "Each replicated queue on each server: its state, the first guarded position, and "
                "what is delayed or missing",
                "cluster",
                answer=_QUEUE,
                is_list=True,
            ),
        ]

    async def show(self, call: ApiRequest) -> object:
        del call
        return await self._line.ask(
            lambda node, now: _status_row(ha_status(member_of(node), now), now)
        )

    async def queues(self, call: ApiRequest) -> object:
        found = await self._line.walk(lambda node: _queues(node, call.caller))
        return RowList([asdict(status) for status in found])


def _status_row(status: HaStatus, now: int) -> dict[str, object]:
    row = asdict(status)
    row["history"] = [
        {
            "ago_ms": max(now - change.at, 0),
            "epoch": change.epoch,
            "version": change.version,
            "in_sync": list(change.in_sync),
            "entered": list(change.entered),
            "left": list(change.left),
            "reason": change.reason,
        }
        for change in status.history
    ]
    row["backups"] = [asdict(backup) for backup in status.backups]
    return row


def _queues(node: Node, caller: Caller) -> Generator[None, None, list[QueueStatus]]:
    member = member_of(node)
    found: list[QueueStatus] = []
    count = 0
    for host in visible_vhosts(node, caller, ""):
        for queue in list(host.queues.values()):
            if is_listed(queue):
                found.extend(queue_statuses(member, host.name, queue))
                count += 1
                if count % STEP_COUNT == 0:
                    yield
    return found
