"""The pages about sinks: rows that are staged and then published as one batch, once.

Sinks are described in `broker.sinks`. Staging is answered when the rows are durable, a commit when
everything is published and durable.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING, Final

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from penstock.broker.errors import NotFound
from penstock.broker.internal_queues import STAGE_OF
from penstock.broker.sinks.expiry import expires_at, is_forgettable
from penstock.broker.sinks.sinks import forget_sink, stage, stage_from
from penstock.broker.sinks.stages import StageKey, unpublished_rows
from penstock.server.http.ended_sinks import EndedSinks
from penstock.server.http.login import LISTERS, Doorkeeper
from penstock.server.http.problems import JsonAnswer, Problem
from penstock.server.http.request_parts import asked, body_of, named, numbered
from penstock.server.http.settings import COMMIT_BYTES_MAX, ROWS_AT_ONCE, ROWS_BYTES_MAX
from penstock.server.http.sink_commit import Facts, SinkCommit, enter_sink
from penstock.server.http.staging import Staging
from penstock.server.http.stream_facts import STEP_COUNT
from penstock.server.http.vhost_access import enter

if TYPE_CHECKING:
    from collections.abc import Generator

    from starlette.requests import Request

    from penstock.broker.sink_table import Sink
    from penstock.node.node import Node
    from penstock.server.http.line import BrokerLine
    from penstock.server.http.login import Caller

# A commit that is not published by then is answered with 202; repeating it continues to wait.
COMMIT_SECONDS: Final = 20.0


class SinkPages:
    """Held by the application."""

    def __init__(self, line: BrokerLine, door: Doorkeeper) -> None:
        self._line = line
        self._door = door
        self._room = asyncio.Semaphore(ROWS_AT_ONCE)
        self._ended = EndedSinks()

    async def list(self, request: Request) -> Response:
        caller = await self._door.let_in(request)
        caller.need_one_of(LISTERS)
        vhost = named(request, "vhost")
        now = await self._line.ask(lambda _, now: now)
        sinks = await self._line.walk(lambda node: _listed(node, caller, vhost, None, now))
        return JsonAnswer({"vhost": vhost, "sinks": sinks})

    async def describe(self, request: Request) -> Response:
        caller = await self._door.let_in(request)
        vhost, sink = named(request, "vhost"), named(request, "sink")
        now = await self._line.ask(lambda _, now: now)
        found = await self._line.walk(lambda node: _listed(node, caller, vhost, sink, now))
        if not found:
            raise NotFound(f"no sink '{sink}' in vhost '{vhost}'")
        return JsonAnswer(found[0])

    async def forget(self, request: Request) -> Response:
        caller = await self._door.let_in(request)
        vhost, sink = named(request, "vhost"), named(request, "sink")

        def run(node: Node, now: int) -> None:
            forget_sink(enter_sink(node, caller, vhost, sink), sink, now)
            self._ended.add(vhost, sink)

        await self._line.change_safely(run)
        return Response(status_code=204)

    async def stage(self, request: Request) -> Response:
        caller = await self._door.let_in(request)
        vhost = named(request, "vhost")
        key = StageKey(
            named(request, "sink"),
            numbered(request, "batch"),
            numbered(request, "partition"),
            numbered(request, "attempt"),
        )
        first = asked(request, "first", -1)
        temporary = bool(asked(request, "temporary", 0))
        async with self._room:
            rows = await body_of(request, ROWS_BYTES_MAX)
            staging = Staging(
                caller,
                vhost,
                rows,
                request.query_params.get("exchange"),
                bool(asked(request, "mandatory", 0)),
                not await run_in_threadpool(_is_checked, request, rows),
            )
            found = await self._line.walk(staging.checked)
            if not found.count:
                return JsonAnswer({"staged": 0})

            def run(node: Node, now: int) -> int:
                entered = enter_sink(node, caller, vhost, key.sink)
                if temporary:
                    self._ended.check(vhost, key.sink)
                if first < 0:
                    return stage(entered, key, found, now, caller.name, temporary)
                return stage_from(entered, key, first, found, now, caller.name, temporary)

            return JsonAnswer({"staged": await self._line.change_safely(run)})

    async def commit(self, request: Request) -> Response:
        caller = await self._door.let_in(request)
        vhost, sink = named(request, "vhost"), named(request, "sink")
        body = await body_of(request, COMMIT_BYTES_MAX)
        batch = numbered(request, "batch")
        # In a thread: megabytes of JSON take a while to read.
        asked_for = await run_in_threadpool(SinkCommit, caller, vhost, sink, batch, body)
        if asked_for.is_empty():
            # There is nothing to publish, so there is nothing to remember either.
            return JsonAnswer(asked_for.answer(published=True))
        known: Sink | None = None
        while known is None:
            await self._line.walk(asked_for.count)
            known = await self._line.change_safely(asked_for.decide)
        pending = known.pending
        published = await self._line.until(lambda: not pending, COMMIT_SECONDS)
        return JsonAnswer(asked_for.answer(published), 200 if published else 202)


def _is_checked(request: Request, rows: bytes) -> bool:
    """Whether the request has a correct checksum of all rows."""
    if "crc32" not in request.query_params:
        return False
    if zlib.crc32(rows) != asked(request, "crc32", None):
        raise Problem(
            400,
            "malformed row block: the checksum of the request does not match",
            "Send the request again.",
        )
    return True


def _listed(
    node: Node, caller: Caller, vhost: str, wanted: str | None, now: int
) -> Generator[None, None, list[Facts]]:
    """All sinks, or the wanted one: those that have committed and those that have only staged."""
    entered, _ = enter(node, caller, vhost)
    staged: dict[str, int] = {}
    for count, queue in enumerate(list(entered.queues.values()), 1):
        name = queue.arguments.get(STAGE_OF)
        if isinstance(name, str) and not queue.is_deleted and wanted in {None, name}:
            sink = entered.sinks.get(name)
            if sink is not None:
                rows = unpublished_rows(entered, sink, queue.name)
                staged[name] = staged.get(name, 0) + rows
        if count % STEP_COUNT == 0:
            yield
    return [
        _facts_of(sink, staged.get(name, 0), now)
        for name, sink in sorted(entered.sinks.items())
        if wanted in {None, name}
    ]


def _facts_of(sink: Sink, staged: int, now: int) -> Facts:
    is_watched = staged > 0 or is_forgettable(sink)
    return {
        "sink": sink.name,
        "owner": sink.owner,
        "batch": None if sink.batch < 0 else sink.batch,
        "is_publishing": bool(sink.pending),
        "waits_for": sink.waits_for or None,
        "messages": staged,
        "temporary": sink.temporary,
        "idle_ms": max(now - sink.touched_at, 0),
        # When staged rows are dropped, and the sink is deleted unless it must be remembered.
        "expires_ms": max(expires_at(sink) - now, 0) if is_watched and not sink.pending else None,
    }
