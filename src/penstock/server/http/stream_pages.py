"""The pages about streams: lists, one stream, its segments' octets, offsets by time, cursors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TypeVar

from starlette.responses import Response

from penstock.server.descriptors import OUT_OF_DESCRIPTORS, files_below
from penstock.server.http.login import LISTERS, Caller, Doorkeeper
from penstock.server.http.problems import JsonAnswer, Problem
from penstock.server.http.ranges import UNSATISFIABLE, extent_of
from penstock.server.http.request_parts import (
    asked,
    body_of,
    integer_in,
    named,
    number,
    object_in,
)
from penstock.server.http.segment_response import SegmentResponse, etag
from penstock.server.http.stream_facts import (
    Facts,
    Identities,
    SegmentFile,
    StreamView,
    cursor_of,
    listed,
    moved_cursor,
    not_yet,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from penstock.server.http.line import BrokerLine

T = TypeVar("T")

_KINDS: Final = ("log", "index")


class StreamPages:
    """Held by the application. `data` is the broker's data directory, if it has one."""

    def __init__(self, line: BrokerLine, door: Doorkeeper, data: Path | None) -> None:
        self._line = line
        self._door = door
        self._data = data
        self._identities = Identities()

    async def list(self, request: Request) -> Response:
        caller = await self._door.let_in(request)
        caller.need_one_of(LISTERS)
        vhost = named(request, "vhost")
        streams = await self._line.walk(lambda node: listed(node, self._identities, caller, vhost))
        return JsonAnswer({"vhost": vhost, "streams": streams})

    async def describe(self, request: Request) -> Response:
        caller = await self._door.let_in(request)
        name = named(request, "name")
        from_offset = asked(request, "from_offset", 0)
        return JsonAnswer(
            await self._view(request, caller, lambda view: view.described(name, from_offset))
        )

    async def offset(self, request: Request) -> Response:
        caller = await self._door.let_in(request)
        name = named(request, "name")
        timestamp = asked(request, "timestamp", None)
        return JsonAnswer(
            await self._view(request, caller, lambda view: view.offsets_at(name, timestamp))
        )

    async def segment(self, request: Request) -> Response:
        caller = await self._door.let_in(request)
        kind = named(request, "kind")
        if kind not in _KINDS:
            raise Problem(404, f"'{kind[:20]}' is not a file of a segment", "Request log or index.")
        name = named(request, "name")
        first_offset = number(named(request, "segment"), "a segment is named by its first offset")
        segment = await self._segment_file(request, caller, name, first_offset, kind)
        file = None
        if self._data is not None:
            file = _opened(self._data / segment.name)
            if file is None:
                # Retention has removed it meanwhile: the second answer says up to where.
                await self._segment_file(request, caller, name, first_offset, kind)
                raise Problem(
                    503, "the segment is being removed", "Try again.", headers={"Retry-After": "1"}
                )
        try:
            _check_if_match(request, segment)
            wanted = request.headers.get("range")
            if_range = request.headers.get("if-range")
            if if_range is not None and if_range != etag(segment):
                wanted = None
            extent = extent_of(wanted, segment.size)
        except Problem as problem:
            if file is not None:
                file.close()
            if problem.status == UNSATISFIABLE and segment.is_replicated:
                raise not_yet() from problem
            raise
        return SegmentResponse(segment, extent, self._line, file)

    async def _segment_file(
        self, request: Request, caller: Caller, name: str, first_offset: int, kind: str
    ) -> SegmentFile:
        return await self._view(
            request, caller, lambda view: view.segment_file(name, first_offset, kind)
        )

    async def get_cursor(self, request: Request) -> Response:
        caller = await self._door.let_in(request)
        name = named(request, "name")
        cursor = named(request, "cursor")
        return JsonAnswer(
            await self._view(request, caller, lambda view: cursor_of(view.stream(name), cursor))
        )

    async def put_cursor(self, request: Request) -> Response:
        caller = await self._door.let_in(request)
        vhost = named(request, "vhost")
        name = named(request, "name")
        cursor = named(request, "cursor")
        offset = _offset_in(await body_of(request))
        facts: Facts = await self._line.change_safely(
            lambda node, now: moved_cursor(
                StreamView(node, self._identities, caller, vhost).stream(name),
                cursor,
                offset,
                now,
            )
        )
        return JsonAnswer(facts)

    async def delete_cursor(self, request: Request) -> Response:
        caller = await self._door.let_in(request)
        vhost = named(request, "vhost")
        name = named(request, "name")
        cursor = named(request, "cursor")
        await self._line.change_safely(
            lambda node, now: (
                StreamView(node, self._identities, caller, vhost).stream(name).delete_cursor(cursor)
            )
        )
        return Response(status_code=204)

    async def _view(self, request: Request, caller: Caller, look: Callable[[StreamView], T]) -> T:
        vhost = named(request, "vhost")
        return await self._line.ask(
            lambda node, now: look(StreamView(node, self._identities, caller, vhost))
        )


def _opened(path: Path) -> BinaryIO | None:
    """None when it is gone. An open file can be read to its end, even if it is removed meanwhile.
    Raises a `Problem` with status 503 when there is no descriptor for it.
    """
    try:
        opened = path.open("rb", buffering=0)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in OUT_OF_DESCRIPTORS:
            raise _no_descriptors() from error
        raise
    if opened.fileno() >= files_below():
        # The remaining descriptors are for the journal.
        opened.close()
        raise _no_descriptors()
    return opened


def _no_descriptors() -> Problem:
    return Problem(
        503,
        "the broker has too many files and sockets open",
        "Try again later, or raise its limit of open files (ulimit -n, LimitNOFILE).",
        headers={"Retry-After": "5"},
    )


def _check_if_match(request: Request, segment: SegmentFile) -> None:
    wanted = request.headers.get("if-match")
    if wanted is not None and wanted.strip() not in {"*", etag(segment)}:
        raise Problem(
            412,
            "the segment does not match If-Match: the stream was deleted and declared again, or "
            "the "
            "segment was replaced",
            "Get the stream's page again and start over.",
            headers={"ETag": etag(segment)},
        )


def _offset_in(body: bytes) -> int:
    """Raises a `Problem` for anything but {"offset": N}."""
    form = '{"offset": N}, the next offset to read; all messages before it have been processed'
    read = object_in(body, form)
    if set(read) != {"offset"}:
        raise Problem(400, 'the body is not {"offset": N}', f"Send {form}.")
    return integer_in(read, "offset", None, form)
