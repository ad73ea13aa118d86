"""Whether the broker is alive and whether it serves. Nobody needs a login to ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from penstock.server.http.problems import JsonAnswer, Problem

if TYPE_CHECKING:
    from starlette.requests import Request

    from penstock.node.node import Node
    from penstock.server.http.line import BrokerLine


class HealthPages:
    """Held by the application. What healthy means is said in `server.health`."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    async def live(self, request: Request) -> Response:
        del request
        self._check()
        return JsonAnswer({"status": "live"})

    async def ready(self, request: Request) -> Response:
        """Takes connections. Publishers may have to wait all the same; metrics say so."""
        del request
        self._check()
        hindrance = _hindrance(self._line.server.node)
        if hindrance:
            raise Problem(503, hindrance, headers={"Retry-After": "5"})
        return JsonAnswer({"status": "ready"})

    def _check(self) -> None:
        """Without asking the broker's loop: it may be what hangs."""
        problem = self._line.server.health.problem()
        if problem:
            raise Problem(503, problem, headers={"Retry-After": "5"})


def _hindrance(node: Node) -> str:
    """Why no connections are taken; empty when they are. Reads single values only: the node
    belongs to another thread.
    """
    if node.storage_failure:
        return "the disk failed"
    if node.is_stopping:
        return "the broker is stopping"
    if len(node.connections) >= node.configuration.connections_max:
        return "all connections are taken"
    return ""
