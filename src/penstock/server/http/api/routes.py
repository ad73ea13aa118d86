"""Serves operations: lets the caller in, looks at its tags and its body, sends the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

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
from penstock.server.http.api.schema import check
from penstock.server.http.problems import JsonAnswer
from penstock.server.http.request_parts import body_of, object_in
from penstock.server.http.settings import BODY_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from penstock.server.http.login import Doorkeeper


def routes_of(operations: Iterable[Operation], door: Doorkeeper) -> list[BaseRoute]:
    return [
        Route(operation.path, Served(operation, door).serve, methods=[operation.method])
        for operation in operations
    ]


class Served:
    """One operation on its route. Held by the application."""

    def __init__(self, operation: Operation, door: Doorkeeper) -> None:
        self._operation = operation
        self._door = door

    async def serve(self, request: Request) -> Response:
        operation = self._operation
        caller = await self._door.let_in(request)
        if operation.allowed:
            caller.need_one_of(operation.allowed)
        call = ApiRequest(request, caller, await self._body(request))
        result = await operation.page(call)
        return await self._answer(request, result)

    async def _body(self, request: Request) -> dict[str, object]:
        schema = self._operation.body
        if schema is None:
            return {}
        octets = await body_of(request, self._operation.body_bytes_max or BODY_BYTES_MAX)
        if not octets.strip() and self._operation.is_body_optional:
            return {}
        read = object_in(octets, "a JSON object; /api/openapi.json describes it")
        check(read, schema)
        return read

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


def _listed(result: RowList | RecordList, query: dict[str, str]) -> Response:
    if isinstance(result, RecordList):
        records = result.records
    else:
        records = [MadeRow(row) for row in result.rows]
    pieces = listed(records, query, Pace())
    if len(pieces) == 1:
        return Response(pieces[0], media_type="application/json")
    size = sum(len(piece) for piece in pieces)
    return StreamingResponse(
        _sent(pieces), media_type="application/json", headers={"Content-Length": str(size)}
    )


async def _sent(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
