"""The pages about leases: bounded batches of a queue's messages, set apart for a job.

Leases are described in `broker.leases`. Taking, settling and releasing are answered when they are
durable, and can be repeated without harm.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from penstock.broker.access.permissions import Permission, ResourceKind
from penstock.broker.internal_queues import LEASE_OF
from penstock.broker.leases.lease_rows import encode_lease
from penstock.broker.leases.leases import (
    BYTES_MAX,
    MESSAGES_MAX,
    LeaseRequest,
    facts_of,
    find_lease,
    give_back,
    leased,
    leases_of,
    settle_leases,
    take_lease,
    taken_at,
)
from penstock.server.http.login import LISTERS, Doorkeeper
from penstock.server.http.problems import JsonAnswer, Problem
from penstock.server.http.request_parts import (
    asked,
    body_of,
    integer_in,
    named,
    numbered,
    object_in,
    text_in,
)
from penstock.server.http.stream_facts import STEP_COUNT
from penstock.server.http.vhost_access import enter

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from starlette.requests import Request

    from penstock.broker.entry import QueueEntry
    from penstock.broker.vhost import VirtualHost
    from penstock.node.node import Node
    from penstock.server.http.line import BrokerLine
    from penstock.server.http.login import Caller

T = TypeVar("T")

Facts = dict[str, object]

_FORM: Final = '{"owner": NAME, "number": N} and optionally "messages", "octets" and "expires_ms"'
_KEYS: Final = frozenset({"owner", "number", "messages", "octets", "expires_ms"})


class LeasePages:
    """Held by the application."""

    def __init__(self, line: BrokerLine, door: Doorkeeper) -> None:
        self._line = line
        self._door = door

    async def list(self, request: Request) -> Response:
        caller = await self._door.let_in(request)
        caller.need_one_of(LISTERS)
        vhost = named(request, "vhost")
        leases = await self._line.walk(lambda node: _listed(node, caller, vhost))
        return JsonAnswer({"vhost": vhost, "leases": leases})

    async def list_of_owner(self, request: Request) -> Response:
        caller = await self._door.let_in(request)
        queue, owner = named(request, "queue"), named(request, "owner")
        leases = await self._look(
            request,
            caller,
            lambda vhost, now: [
                asdict(facts_of(lease, False)) for lease in leases_of(vhost, queue, owner)
            ],
        )
        return JsonAnswer({"queue": queue, "owner": owner, "leases": leases})

    async def take(self, request: Request) -> Response:
        caller = await self._door.let_in(request)
        wanted = _wanted(named(request, "queue"), await body_of(request))
        facts = await self._change(
            request, caller, lambda vhost, now: asdict(take_lease(vhost, wanted, now))
        )
        return JsonAnswer(facts)

    async def read(self, request: Request) -> Response:
        caller = await self._door.let_in(request)
        first = asked(request, "from", 0)
        end = asked(request, "to", MESSAGES_MAX)
        queue, owner = named(request, "queue"), named(request, "owner")
        number = numbered(request, "number")

        def look(vhost: VirtualHost, _: int) -> tuple[list[QueueEntry], int]:
            lease = find_lease(vhost, queue, owner, number)
            return leased(lease, first, min(end, MESSAGES_MAX)), taken_at(lease)

        entries, wall = await self._look(request, caller, look)
        # In a thread, and not on either loop: the content of a lease does not change.
        rows = await run_in_threadpool(encode_lease, entries, wall)
        return Response(rows, media_type="application/octet-stream")

    async def settle(self, request: Request) -> Response:
        caller = await self._door.let_in(request)
        queue, owner = named(request, "queue"), named(request, "owner")
        number = numbered(request, "number")
        count = await self._change(
            request, caller, lambda vhost, now: settle_leases(vhost, queue, owner, number, now)
        )
        return JsonAnswer({"settled": count})

    async def give_back(self, request: Request) -> Response:
        caller = await self._door.let_in(request)
        queue, owner = named(request, "queue"), named(request, "owner")
        number = numbered(request, "number")
        count = await self._change(
            request, caller, lambda vhost, now: give_back(vhost, queue, owner, number, now)
        )
        return JsonAnswer({"returned": count})

    async def _look(
        self, request: Request, caller: Caller, look: Callable[[VirtualHost, int], T]
    ) -> T:
        return await self._line.ask(_permitted(request, caller, look))

    async def _change(
        self, request: Request, caller: Caller, change: Callable[[VirtualHost, int], T]
    ) -> T:
        return await self._line.change_safely(_permitted(request, caller, change))


def _permitted(
    request: Request, caller: Caller, command: Callable[[VirtualHost, int], T]
) -> Callable[[Node, int], T]:
    """Requires read permission on the queue: a lease is a way of consuming it."""
    vhost = named(request, "vhost")
    queue = named(request, "queue")

    def run(node: Node, now: int) -> T:
        entered, access = enter(node, caller, vhost)
        access.check(Permission.READ, ResourceKind.QUEUE, queue)
        return command(entered, now)

    return run


def _wanted(queue: str, body: bytes) -> LeaseRequest:
    read = object_in(body, _FORM)
    if not isinstance(read.get("owner"), str) or not _KEYS.issuperset(read):
        raise Problem(
            400,
            "the body does not name the owner of the lease, or has an unknown key",
            f"Send {_FORM}.",
        )
    owner = text_in(read, "owner", _FORM)
    return LeaseRequest(
        queue,
        owner,
        integer_in(read, "number", None, _FORM),
        integer_in(read, "messages", MESSAGES_MAX, _FORM),
        integer_in(read, "octets", BYTES_MAX, _FORM),
        integer_in(read, "expires_ms", 0, _FORM),
    )


def _listed(node: Node, caller: Caller, vhost: str) -> Generator[None, None, list[Facts]]:
    entered, _ = enter(node, caller, vhost)
    found: list[Facts] = []
    for count, queue in enumerate(list(entered.queues.values()), 1):
        if LEASE_OF in queue.arguments and not queue.is_deleted:
            found.append(asdict(facts_of(queue, False)))
        if count % STEP_COUNT == 0:
            yield
    return found
