"""The HTTP application: which path is whose, and what is said when something goes wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

import penstock
from penstock.broker.errors import Refusal
from penstock.server.http.health import HealthPages
from penstock.server.http.lease_pages import LeasePages
from penstock.server.http.line import BrokerSilent
from penstock.server.http.login import Doorkeeper
from penstock.server.http.metrics import MetricsPages
from penstock.server.http.problems import JsonAnswer, Problem, problem_of
from penstock.server.http.settings import HEADER_BYTES_MAX, REQUESTS_MAX
from penstock.server.http.sink_pages import SinkPages
from penstock.server.http.stream_pages import StreamPages
from penstock.server.http.websocket import WebSocketDoor

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from penstock.server.http.line import BrokerLine
    from penstock.server.logins import ThreadedLoginChecker

log = structlog.get_logger()

_STREAM: Final = "/api/streams/{vhost}/{name}"
_OWNER: Final = "/api/leases/{vhost}/{queue}/{owner}"
_SINK: Final = "/api/sinks/{vhost}/{sink}"


def make_application(
    line: BrokerLine, logins: ThreadedLoginChecker, data: Path | None, origins: tuple[str, ...]
) -> Gate:
    door = Doorkeeper(line, logins)
    application = Starlette(
        routes=_routes(line, door, data, origins),
        exception_handlers={
            Problem: _problem,
            Refusal: _refusal,
            BrokerSilent: _silence,
            HTTPException: _http_error,
            Exception: _defect,
        },
    )
    application.router.redirect_slashes = False
    return Gate(application)


def _routes(
    line: BrokerLine, door: Doorkeeper, data: Path | None, origins: tuple[str, ...]
) -> list[BaseRoute]:
    health = HealthPages(line)
    metrics = MetricsPages(line, door)
    streams = StreamPages(line, door, data)
    sockets = WebSocketDoor(line, origins)
    return [
        Route("/", _front),
        Route("/health/live", health.live),
        Route("/health/ready", health.ready),
        Route("/metrics", metrics.totals),
        Route("/metrics/per-queue", metrics.per_queue),
        Route("/api/streams/{vhost}", streams.list),
        Route(_STREAM, streams.describe),
        Route(f"{_STREAM}/offset", streams.offset),
        Route(f"{_STREAM}/segments/{{segment}}/{{kind}}", streams.segment),
        Route(f"{_STREAM}/cursors/{{cursor}}", streams.get_cursor, methods=["GET"]),
        Route(f"{_STREAM}/cursors/{{cursor}}", streams.put_cursor, methods=["PUT"]),
        Route(f"{_STREAM}/cursors/{{cursor}}", streams.delete_cursor, methods=["DELETE"]),
        *_lease_routes(LeasePages(line, door)),
        *_sink_routes(SinkPages(line, door)),
        WebSocketRoute("/", sockets.serve),
        WebSocketRoute("/ws", sockets.serve),
    ]


def _lease_routes(leases: LeasePages) -> list[BaseRoute]:
    return [
        Route("/api/leases/{vhost}", leases.list),
        Route("/api/leases/{vhost}/{queue}", leases.take, methods=["POST"]),
        Route(_OWNER, leases.list_of_owner),
        Route(f"{_OWNER}/{{number}}", leases.read, methods=["GET"]),
        Route(f"{_OWNER}/{{number}}", leases.settle, methods=["DELETE"]),
        Route(f"{_OWNER}/{{number}}/return", leases.give_back, methods=["POST"]),
    ]


def _sink_routes(sinks: SinkPages) -> list[BaseRoute]:
    batch = f"{_SINK}/batches/{{batch}}"
    attempt = f"{batch}/partitions/{{partition}}/attempts/{{attempt}}"
    return [
        Route("/api/sinks/{vhost}", sinks.list),
        Route(_SINK, sinks.describe, methods=["GET"]),
        Route(_SINK, sinks.forget, methods=["DELETE"]),
        Route(attempt, sinks.stage, methods=["POST"]),
        Route(f"{batch}/commit", sinks.commit, methods=["POST"]),
    ]


class Gate:
    """In front of the application: bounds the requests at once and leaves paths as they came, so
    that the virtual host %2F is one part of a path.
    """

    def __init__(self, application: ASGIApp) -> None:
        self._application = application
        self._request_count = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if "raw_path" in scope:
            scope["path"] = scope["raw_path"].decode("ascii", "replace")
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        problem = self._objection(scope)
        if problem is not None:
            await problem.response()(scope, receive, send)
            return
        self._request_count += 1
        try:
            await self._application(scope, receive, send)
        finally:
            self._request_count -= 1

    def _objection(self, scope: Scope) -> Problem | None:
        if self._request_count >= REQUESTS_MAX:
            return Problem(
                503,
                f"{REQUESTS_MAX} requests are under way",
                "Ask again later.",
                headers={"Retry-After": "1"},
            )
        # h11 counts only what it must keep while a request is not whole.
        if sum(len(name) + len(value) for name, value in scope["headers"]) > HEADER_BYTES_MAX:
            return Problem(431, f"headers have at most {HEADER_BYTES_MAX} octets")
        return None


async def _front(request: Request) -> Response:
    del request
    return JsonAnswer({"product": "Penstock", "version": penstock.__version__})


async def _problem(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, Problem)
    return error.response()


async def _refusal(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, Refusal)
    return problem_of(error).response()


async def _silence(request: Request, error: Exception) -> Response:
    del request
    return Problem(503, str(error), headers={"Retry-After": "5"}).response()


async def _http_error(request: Request, error: Exception) -> Response:
    """Starlette's own: no such path, or a method that it does not have."""
    assert isinstance(error, HTTPException)
    reason = error.detail
    if error.status_code == 404:
        reason = f"there is nothing at {request.scope['path'][:200]}"
    return Problem(
        error.status_code,
        reason,
        "docs/HTTP.md lists the paths.",
        headers=dict(error.headers or {}),
    ).response()


async def _defect(request: Request, error: Exception) -> Response:
    log.error("request failed", path=request.scope["path"], exc_info=error)
    return Problem(500, "a defect of the broker", "See its log.").response()
