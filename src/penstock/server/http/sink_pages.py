"""The pages about sinks: rows that are staged and then published as one batch, once.

What a sink is stands in `broker.sinks`. Staging is answered when the rows are safe on disk, a
commit when everything is published and safe.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from penstock.broker.errors import NotFound
from penstock.broker.set_apart import STAGE_OF
from penstock.broker.sinks import StageKey, commit, forget_sink, is_committed, stage, stage_from
from penstock.server.http.login import LISTERS, Doorkeeper
from penstock.server.http.problems import JsonAnswer, Problem
from penstock.server.http.request_parts import asked, body_of, named, numbered, object_in
from penstock.server.http.settings import COMMIT_BYTES_MAX, ROWS_AT_ONCE, ROWS_BYTES_MAX
from penstock.server.http.staging import Staging
from penstock.server.http.stream_facts import STEP_COUNT
from penstock.server.http.vhost_access import enter

if TYPE_CHECKING:
    from collections.abc import Generator

    from starlette.requests import Request

    from penstock.broker.vhost_view import Sink
    from penstock.node.node import Node
    from penstock.server.http.line import BrokerLine

# A commit that is not published by then is answered with 202; asking again goes on waiting.
COMMIT_SECONDS: Final = 20.0
_FORM: Final = '{"attempts": [[PARTITION, ATTEMPT, COUNT], ...]}'

Facts = dict[str, object]


class SinkPages:
    """Held by the application."""

    def __init__(self, line: BrokerLine, door: Doorkeeper) -> None:
        self._line = line
        self._door = door
        self._room = asyncio.Semaphore(ROWS_AT_ONCE)

    async def list(self, request: Request) -> Response:
        caller = await self._door.let_in(request)
        caller.need_one_of(LISTERS)
        vhost = named(request, "vhost")
        sinks = await self._line.walk(lambda node: _listed(node, caller.name, vhost, None))
        return JsonAnswer({"vhost": vhost, "sinks": sinks})

    async def describe(self, request: Request) -> Response:
        caller = await self._door.let_in(request)
        vhost, sink = named(request, "vhost"), named(request, "sink")
        found = await self._line.walk(lambda node: _listed(node, caller.name, vhost, sink))
        if not found:
            raise NotFound(f"no sink '{sink}' in vhost '{vhost}'")
        return JsonAnswer(found[0])

    async def forget(self, request: Request) -> Response:
        caller = await self._door.let_in(request)
        vhost, sink = named(request, "vhost"), named(request, "sink")

        def run(node: Node, now: int) -> None:
            entered, _ = enter(node, caller.name, vhost)
            forget_sink(entered, sink, now)

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
        mandatory = bool(asked(request, "mandatory", 0))
        async with self._room:
            rows = await body_of(request, ROWS_BYTES_MAX)
            exchange = request.query_params.get("exchange")
            staging = Staging(caller.name, vhost, rows, exchange, mandatory)
            messages = await self._line.walk(staging.decoded)
            if not messages:
                return JsonAnswer({"staged": 0})

            def run(node: Node, now: int) -> int:
                entered, _ = enter(node, caller.name, vhost)
                if first < 0:
                    return stage(entered, key, messages, now)
                return stage_from(entered, key, first, messages, now)

            return JsonAnswer({"staged": await self._line.change_safely(run)})

    async def commit(self, request: Request) -> Response:
        caller = await self._door.let_in(request)
        vhost, sink = named(request, "vhost"), named(request, "sink")
        batch = numbered(request, "batch")
        attempts = _attempts_in(await body_of(request, COMMIT_BYTES_MAX))
        if not any(count for _, _, count in attempts):
            # There is nothing to publish, so there is nothing to remember either.
            return JsonAnswer(_committed(batch, True, False, None))

        def run(node: Node, now: int) -> tuple[Sink, bool]:
            entered, _ = enter(node, caller.name, vhost)
            repeated = is_committed(entered, sink, batch)
            return commit(entered, sink, batch, attempts, now), repeated

        known, repeated = await self._line.change_safely(run)
        published = await self._line.until(lambda: not known.pending, COMMIT_SECONDS)
        return JsonAnswer(_committed(batch, published, repeated, known), 200 if published else 202)


def _committed(batch: int, published: bool, repeated: bool, sink: Sink | None) -> Facts:
    last = batch if sink is None else sink.batch
    unroutable = 0 if sink is None or last != batch else sink.unroutable
    return {
        "batch": batch,
        "published": published,
        "repeated": repeated,
        "last_batch": last,
        "unroutable": unroutable,
    }


def _attempts_in(body: bytes) -> list[tuple[int, int, int]]:
    read = object_in(body, _FORM).get("attempts")
    attempts: list[tuple[int, int, int]] = []
    for row in read if isinstance(read, list) else [None]:
        if not isinstance(row, list) or len(row) != 3 or any(type(n) is not int for n in row):
            raise Problem(400, "the body does not name the attempts that count", f"Send {_FORM}.")
        attempts.append((row[0], row[1], row[2]))
    if len({partition for partition, _, _ in attempts}) != len(attempts):
        raise Problem(400, "a partition is named twice", "One attempt of each partition counts.")
    return attempts


def _listed(
    node: Node, user: str, vhost: str, wanted: str | None
) -> Generator[None, None, list[Facts]]:
    """All sinks, or the wanted one: those that have committed and those that have only staged."""
    entered, _ = enter(node, user, vhost)
    staged: dict[str, int] = {}
    for count, queue in enumerate(list(entered.queues.values()), 1):
        name = queue.arguments.get(STAGE_OF)
        if name is not None and not queue.is_deleted:
            staged[str(name)] = staged.get(str(name), 0) + queue.message_count
        if count % STEP_COUNT == 0:
            yield
    found: list[Facts] = []
    for name in sorted({*entered.sinks, *staged}):
        if wanted is None or wanted == name:
            sink = entered.sinks.get(name)
            found.append(
                {
                    "sink": name,
                    "batch": None if sink is None else sink.batch,
                    "is_publishing": sink is not None and bool(sink.pending),
                    "messages": staged.get(name, 0),
                }
            )
    return found
