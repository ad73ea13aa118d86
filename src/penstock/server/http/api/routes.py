"""Serves operations: lets the caller in, looks at its tags and its body, sends the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import Route

from penstock.broker.json_values import value_fault
from penstock.server.http.api.body_room import BodyRoom
from penstock.server.http.api.json_pieces import large_object_in
from penstock.server.http.api.listing import MadeRow, listed, with_columns
from penstock.server.http.api.operation import (
    ApiRequest,
    Created,
    NoContent,
    Operation,
    RecordList,
    RowList,
)
from penstock.server.http.api.pace import Pace
from penstock.server.http.api.pieces import answer_in_pieces
from penstock.server.http.api.schema import check
from penstock.server.http.login import Caller
from penstock.server.http.problems import JsonAnswer, Problem
from penstock.server.http.request_parts import body_of
from penstock.server.http.settings import (
    BODY_BYTES_MAX,
    BODY_BYTES_PER_SECOND,
    BODY_SECONDS,
    LARGE_BODY_BYTES_PER_SECOND,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from penstock.server.http.api.schema import Schema
    from penstock.server.http.login import Doorkeeper


NOBODY: Final = Caller("", ())


def routes_of(operations: Iterable[Operation], door: Doorkeeper) -> list[BaseRoute]:
    rooms: dict[str, BodyRoom] = {}
    by_path: dict[str, dict[str, Served]] = {}
    for operation in operations:
        room = None
        if operation.places is not None:
            room = rooms.setdefault(operation.places.kind, BodyRoom(operation.places))
        served = Served(operation, door, room)
        by_path.setdefault(operation.path, {})[operation.method] = served
    # One route for each path, so that the answer to another method names all that there are.
    return [
        Route(path, ServedPath(methods).serve, methods=list(methods))
        for path, methods in by_path.items()
    ]


class ServedPath:
    """The operations of one path. Held by the application."""

    def __init__(self, by_method: dict[str, Served]) -> None:
        self._by_method = by_method

    async def serve(self, request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await self._by_method[method].serve(request)


class Served:
    """One operation on its route. Held by the application."""

    def __init__(self, operation: Operation, door: Doorkeeper, room: BodyRoom | None) -> None:
        """Only operations with large bodies have a `room`."""
        self._operation = operation
        self._door = door
        self._room = room

    async def serve(self, request: Request) -> Response:
        operation = self._operation
        caller = NOBODY if operation.is_public else await self._door.let_in(request)
        if operation.allowed:
            caller.need_one_of(operation.allowed)
        if operation.admission is not None:
            await operation.admission(ApiRequest(request, caller, {}))
        if self._room is not None and _may_be_large(request):
            async with self._room.place(caller.name):
                return await self._served(request, caller)
        return await self._served(request, caller)

    async def _served(self, request: Request, caller: Caller) -> Response:
        call = ApiRequest(request, caller, await self._body(request))
        result = await self._operation.page(call)
        return await self._answer(request, result)

    async def _body(self, request: Request) -> dict[str, object]:
        operation = self._operation
        if operation.body is None or operation.reads_body:
            return {}
        octets = await body_of(
            request,
            operation.body_bytes_max or BODY_BYTES_MAX,
            BODY_SECONDS,
            BODY_BYTES_PER_SECOND if self._room is None else LARGE_BODY_BYTES_PER_SECOND,
        )
        if not octets.strip() and operation.is_body_optional:
            return {}
        if len(octets) > BODY_BYTES_MAX:
            # Megabytes of JSON take a while to read, piece by piece.
            return await run_in_threadpool(_read, octets, operation.body)
        return _read(octets, operation.body)

    async def _answer(self, request: Request, result: object) -> Response:
        if isinstance(result, Response):
            return result
        if isinstance(result, NoContent):
            return Response(status_code=204)
        if isinstance(result, Created):
            headers = {"Location": result.location} if result.location else {}
            return Response(status_code=201 if result.is_new else 204, headers=headers)
        query = dict(parse_qsl(request.url.query, keep_blank_values=True))
        if isinstance(result, (RowList, RecordList)):
            # Thousands of rows must hold up neither other requests nor the broker.
            return await run_in_threadpool(_listed, result, query)
        if isinstance(result, dict):
            result = with_columns(result, query)
        return JsonAnswer(result)


def _may_be_large(request: Request) -> bool:
    """A small body waits for nobody: others may send large ones slowly."""
    length = request.headers.get("content-length", "")
    return not (length.isascii() and length.isdigit()) or int(length[:10]) > BODY_BYTES_MAX


def _read(octets: bytes, schema: Schema) -> dict[str, object]:
    read = large_object_in(octets, "a JSON object; /api/openapi.json describes it")
    fault = value_fault(read, 0)
    if fault:
        raise Problem(400, f"a value in the body {fault}")
    check(read, schema)
    return read


def _listed(result: RowList | RecordList, query: dict[str, str]) -> Response:
    pace = Pace()
    if isinstance(result, RowList):
        return answer_in_pieces(listed([MadeRow(row) for row in result.rows], query, pace))
    pieces = listed(result.records, query, pace)
    pace.free(result.records)
    return answer_in_pieces(pieces)
