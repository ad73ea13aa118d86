"""The document's entries of pages that are served elsewhere: streams, leases and sinks.

Their bodies are not all JSON, and they check them themselves; docs/HTTP.md says more about each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.server.http.api.operation import MANAGEMENT, Operation, Query
from penstock.server.http.api.schema import COUNT, INTEGER, TABLE, TEXT, list_of, object_of

if TYPE_CHECKING:
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.api.schema import Schema

_STREAM: Final = "/api/streams/{vhost}/{name}"
_LEASES: Final = "/api/leases/{vhost}/{queue}"
_SINK: Final = "/api/sinks/{vhost}/{sink}"
_BATCH: Final = f"{_SINK}/batches/{{batch}}"
_OCTETS: Final[Schema] = {"type": "string", "format": "binary"}
_BINARY: Final = "application/octet-stream"


def older_operations() -> list[Operation]:
    return [*_streams(), *_leases(), *_sinks()]


def _described(
    method: str,
    path: str,
    summary: str,
    answer: Schema,
    *,
    body: Schema | None = None,
    body_type: str = "application/json",
    answer_type: str = "application/json",
    queries: tuple[Query, ...] = (),
    statuses: tuple[int, ...] = (),
) -> Operation:
    return Operation(
        method,
        path,
        _served_elsewhere,
        summary,
        path.split("/")[2],
        MANAGEMENT,
        body,
        answer=answer,
        queries=queries,
        statuses=statuses,
        body_types=(body_type,),
        answer_type=answer_type,
        answers=True,
    )


async def _served_elsewhere(call: ApiRequest) -> object:
    raise AssertionError(f"{call.request.scope['path']} is served by a page of its own")


def _streams() -> list[Operation]:
    cursor = f"{_STREAM}/cursors/{{cursor}}"
    offset = object_of({"offset": INTEGER})
    return [
        _described(
            "GET",
            "/api/streams/{vhost}",
            "The streams of a virtual host",
            object_of({"vhost": TEXT, "streams": list_of(TABLE)}),
        ),
        _described(
            "GET",
            _STREAM,
            "A stream and its segments",
            TABLE,
            queries=(Query("from_offset", "List segments from this offset on.", COUNT),),
        ),
        _described(
            "GET",
            f"{_STREAM}/offset",
            "The offset at a time",
            TABLE,
            queries=(Query("timestamp", "Milliseconds since 1970.", COUNT, required=True),),
        ),
        _described(
            "GET",
            f"{_STREAM}/segments/{{segment}}/{{kind}}",
            "The bytes of a segment's log or index; the header Range is understood",
            _OCTETS,
            answer_type=_BINARY,
            statuses=(206, 410, 412, 416),
        ),
        _described("GET", cursor, "A cursor", TABLE),
        _described("PUT", cursor, "Move a cursor", TABLE, body=offset),
        _described("DELETE", cursor, "Delete a cursor", TABLE),
    ]


def _leases() -> list[Operation]:
    owner = f"{_LEASES}/{{owner}}"
    number = f"{owner}/{{number}}"
    lease = object_of(
        {"owner": TEXT, "number": INTEGER},
        {"messages": INTEGER, "octets": INTEGER, "expires_ms": INTEGER},
    )
    return [
        _described(
            "GET",
            "/api/leases/{vhost}",
            "The leases in a virtual host",
            object_of({"vhost": TEXT, "leases": list_of(TABLE)}),
        ),
        _described("POST", _LEASES, "Take a lease of messages", TABLE, body=lease),
        _described(
            "GET",
            owner,
            "The leases of an owner",
            object_of({"queue": TEXT, "owner": TEXT, "leases": list_of(TABLE)}),
        ),
        _described(
            "GET",
            number,
            "The messages of a lease, as rows",
            _OCTETS,
            answer_type=_BINARY,
            queries=(
                Query("from", "The first row.", COUNT),
                Query("to", "The row behind the last one.", COUNT),
            ),
        ),
        _described(
            "DELETE", number, "Settle leases up to this number", object_of({"settled": COUNT})
        ),
        _described(
            "POST",
            f"{number}/return",
            "Return the messages of a lease to its queue",
            object_of({"returned": COUNT}),
        ),
    ]


def _sinks() -> list[Operation]:
    attempt = f"{_BATCH}/partitions/{{partition}}/attempts/{{attempt}}"
    attempts = object_of({"attempts": list_of(list_of(INTEGER))})
    return [
        _described(
            "GET",
            "/api/sinks/{vhost}",
            "The sinks of a virtual host",
            object_of({"vhost": TEXT, "sinks": list_of(TABLE)}),
        ),
        _described("GET", _SINK, "A sink", TABLE),
        _described("DELETE", _SINK, "Forget a sink and what is staged for it", TABLE),
        _described(
            "POST",
            attempt,
            "Stage rows",
            object_of({"staged": COUNT}),
            body=_OCTETS,
            body_type=_BINARY,
            queries=(
                Query("first", "How many rows the attempt has staged before these.", COUNT),
                Query("temporary", "1: the sink is for one job.", COUNT),
                Query("exchange", "The exchange of rows that name none."),
                Query("mandatory", "1: every row must reach a queue.", COUNT),
                Query("crc32", "The checksum of the body.", COUNT),
            ),
        ),
        _described(
            "POST",
            f"{_BATCH}/commit",
            "Publish a batch; 202 while it is being published",
            TABLE,
            body=attempts,
            statuses=(202,),
        ),
    ]
