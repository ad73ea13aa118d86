"""The HTTP application: the paths and their pages, and the answers to errors."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

import structlog
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

import penstock
from penstock.broker.errors import Refusal
from penstock.broker.events import Event, EventKind, Party, Severity
from penstock.server.http.api.all_pages import all_operations
from penstock.server.http.api.older_pages import older_operations
from penstock.server.http.api.openapi import document
from penstock.server.http.api.routes import routes_of
from penstock.server.http.health import (
    PATHS,
    RETRY_SECONDS,
    HealthPages,
    answer_body,
)
from penstock.server.http.hosts import changes_something
from penstock.server.http.lease_pages import LeasePages
from penstock.server.http.line import BrokerNotResponding
from penstock.server.http.login import Doorkeeper, peer_of, port_of
from penstock.server.http.metrics import MetricsPages
from penstock.server.http.problems import JsonAnswer, Problem, problem_of
from penstock.server.http.protocol import protocol_of
from penstock.server.http.settings import REQUESTS_MAX, WRITE_SECONDS
from penstock.server.http.sink_pages import SinkPages
from penstock.server.http.stream_pages import StreamPages
from penstock.server.http.websocket import WebSocketDoor

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from penstock.server.http.hosts import Hosts
    from penstock.server.http.line import BrokerLine
    from penstock.server.logins import ThreadedLoginChecker

log = structlog.get_logger()

_STREAM: Final = "/api/streams/{vhost}/{name}"
_OWNER: Final = "/api/leases/{vhost}/{queue}/{owner}"
_SINK: Final = "/api/sinks/{vhost}/{sink}"
_WEBSOCKETS: Final = ("/", "/ws")
_API: Final = "/api/"
# Paths below it that RabbitMQ does not have.
_STREAMS: Final = "/api/streams/"
_OWN: Final = (_STREAMS, "/api/leases/", "/api/sinks/")
FORBIDDEN: Final = 403
_HELP: Final = "docs/HTTP.md lists the paths."


def make_application(
    line: BrokerLine,
    logins: ThreadedLoginChecker,
    data: Path | None,
    hosts: Hosts,
    health: HealthPages,
) -> Gate:
    door = Doorkeeper(line, logins)
    denials = Denials(line)
    application = Starlette(
        routes=routes_and_document(line, door, data)[0],
        exception_handlers={
            ClientDisconnect: _gone,
            Problem: denials.problem,
            Refusal: denials.refusal,
            BrokerNotResponding: _silence,
            HTTPException: _http_error,
            Exception: _defect,
        },
    )
    application.router.redirect_slashes = False
    return Gate(application, hosts, health)


def routes_and_document(
    line: BrokerLine, door: Doorkeeper, data: Path | None
) -> tuple[list[BaseRoute], dict[str, object]]:
    """All paths, and the OpenAPI document of those under /api."""
    metrics = MetricsPages(line, door, data)
    streams = StreamPages(line, door, data)
    sockets = WebSocketDoor(line)
    operations = all_operations(line, door, data)
    described = document([*operations, *older_operations()])
    description = JsonAnswer(described)
    routes: list[BaseRoute] = [
        Route("/", _front),
        Route("/metrics", metrics.totals),
        Route("/metrics/per-object", metrics.per_object),
        Route("/metrics/detailed", metrics.detailed),
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
        *routes_of(operations, door),
        # Readable without a login, as the documents beside it are.
        Route("/api/openapi.json", lambda request: description),
        *(WebSocketRoute(path, sockets.serve) for path in _WEBSOCKETS),
    ]
    return routes, described


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
    """In front of the application: answers questions about health, bounds the number of concurrent
    requests, checks the Host header, and leaves paths as they came, so that the virtual host %2F is
    one part of a path.
    """

    def __init__(self, application: ASGIApp, hosts: Hosts, health: HealthPages) -> None:
        self._application = application
        self._hosts = hosts
        self._health = health
        self._request_count = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["path"] = _plain(scope["raw_path"].decode("ascii", "replace"))
        if scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        elif scope["path"] in PATHS and not changes_something(scope["method"]):
            # Health is answered however many requests are in progress. The front door answers most
            # of these itself.
            await self._health_answer(scope["path"])(scope, receive, send)
        else:
            await self._request(scope, receive, send)

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        problem = self._objection(scope)
        if problem is not None:
            await problem.response()(scope, receive, send)
            return
        self._request_count += 1
        try:
            await self._application(scope, receive, Sending(scope, send).send)
        finally:
            self._request_count -= 1

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        problem = self._hosts.objection(headers) or self._hosts.origin_objection(headers)
        if problem is None and scope["path"] not in _WEBSOCKETS:
            problem = _nothing_at(scope["path"])
        if problem is not None:
            await WebSocket(scope, receive, send).send_denial_response(problem.response())
            return
        await self._application(scope, receive, send)

    def _objection(self, scope: Scope) -> Problem | None:
        if self._request_count >= REQUESTS_MAX:
            return Problem(
                503,
                f"{REQUESTS_MAX} requests are already in progress",
                "Try again later.",
                headers={"Retry-After": "1"},
            )
        headers = Headers(scope=scope)
        problem = self._hosts.objection(headers)
        if problem is None and scope["path"].startswith(_OWN):
            # Leases and what jobs commit are the root's; a job asks its other addresses. Streams can
            # be read elsewhere, too.
            reason = self._health.why_not_root()
            if reason and _reads_a_stream(scope):
                reason = self._health.why_no_streams()
            problem = Problem(503, reason, headers={"Retry-After": "1"}) if reason else None
        if problem is None and changes_something(scope["method"]):
            # A browser adds a password that was once typed, whatever page sends the request.
            problem = self._hosts.origin_objection(headers)
        return problem

    def _health_answer(self, path: str) -> Response:
        objection = self._health.objection(path)
        headers = {"Retry-After": str(RETRY_SECONDS)} if objection else {}
        return JsonAnswer(answer_body(path, objection), 503 if objection else 200, headers)


def _reads_a_stream(scope: Scope) -> bool:
    return scope["path"].startswith(_STREAMS) and not changes_something(scope["method"])


def _plain(path: str) -> str:
    """RabbitMQ takes a slash at the end of a path of its API, and some of its clients send one."""
    is_rabbitmqs = path.startswith(_API) and not path.startswith(_OWN)
    return path.rstrip("/") if is_rabbitmqs else path


class Sending:
    """One answer that is sent to a peer that may not read it. Held by its request."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send

    async def send(self, message: Message) -> None:
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                await self._send(message)
        except TimeoutError:
            await protocol_of(self._scope).give_up()


async def _front(request: Request) -> Response:
    del request
    return JsonAnswer({"product": "Penstock", "version": penstock.__version__})


async def _gone(request: Request, error: Exception) -> Response:
    """The client disconnected before it had sent its request, or was too slow; this answer is not
    sent.
    """
    del request, error
    return Response(status_code=400)


class Denials:
    """Answers the exceptions of pages, and logs which user was refused what."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    async def problem(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        if error.status == FORBIDDEN:
            self._note(request, error.reason)
        return error.response()

    async def refusal(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, Refusal)
        return await self.problem(request, problem_of(error))

    def _note(self, request: Request, reason: str) -> None:
        party = Party(
            peer_host=peer_of(request)[0],
            peer_port=port_of(request),
            user=getattr(request.state, "user", ""),
        )
        facts: dict[str, object] = {"protocol": "HTTP", "path": request.scope["path"]}
        event = Event(EventKind.ACCESS_DENIED, Severity.WARNING, party, reason, facts)
        with contextlib.suppress(BrokerNotResponding):
            self._line.tell(lambda: self._line.server.node.container.events.record(event))


async def _silence(request: Request, error: Exception) -> Response:
    del request
    return Problem(503, str(error), headers={"Retry-After": "5"}).response()


async def _http_error(request: Request, error: Exception) -> Response:
    """Starlette's own: no such path, or a method that it does not have."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return _nothing_at(request.scope["path"]).response()
    headers = dict(error.headers or {})
    return Problem(error.status_code, error.detail, _HELP, headers=headers).response()


def _nothing_at(path: str) -> Problem:
    return Problem(404, f"no resource at {path[:200]}", _HELP)


async def _defect(request: Request, error: Exception) -> Response:
    log.error("HTTP request failed", path=request.scope["path"][:200], exc_info=error)
    return Problem(
        500, "internal error of the broker", "See the broker's log, and please report the error."
    ).response()
