"""The table of all operations of the API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.server.http.api.binding_pages import BindingPages
from penstock.server.http.api.connection_pages import ConnectionPages
from penstock.server.http.api.exchange_pages import ExchangePages
from penstock.server.http.api.explain import ExplainPages
from penstock.server.http.api.moves import MovePages
from penstock.server.http.api.nodes import NodePages
from penstock.server.http.api.overview import OverviewPages
from penstock.server.http.api.peek import PeekPages
from penstock.server.http.api.queue_ages import AgePages
from penstock.server.http.api.queue_changes import QueueChanges
from penstock.server.http.api.queue_pages import MessageQueuePages
from penstock.server.http.api.sampler import Sampler
from penstock.server.http.api.vhost_pages import VhostPages
from penstock.server.http.api.whoami import WhoAmI

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.server.http.api.operation import Operation
    from penstock.server.http.line import BrokerLine


def all_operations(line: BrokerLine, data: Path | None) -> list[Operation]:
    """In the order in which paths are tried: a fixed word before a name at the same place."""
    sampler = Sampler(line)
    return [
        *WhoAmI().operations(),
        *OverviewPages(line, sampler).operations(),
        *NodePages(line, sampler, data).operations(),
        *ConnectionPages(line, sampler).operations(),
        *BindingPages(line).operations(),
        *QueueChanges(line).operations(),
        *MovePages(line).operations(),
        *PeekPages(line).operations(),
        *ExplainPages(line).operations(),
        *AgePages(line).operations(),
        *MessageQueuePages(line, sampler).operations(),
        *ExchangePages(line).operations(),
        *VhostPages(line, sampler).operations(),
    ]
