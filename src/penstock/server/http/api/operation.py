"""One page of the API, described once: served by `routes`, documented by `openapi`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.broker.access import tags
from penstock.server.http.api.schema import ANYTHING, TEXT, Schema
from penstock.server.http.request_parts import named

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request

    from penstock.server.http.api.listing import Record
    from penstock.server.http.login import Caller

# Who may ask, by RabbitMQ's tags.
MANAGEMENT: Final = tags.MANAGEMENT
MONITORING: Final = tags.MONITORING
POLICYMAKER: Final = tags.POLICYMAKER
ADMINISTRATOR: Final = tags.ADMINISTRATOR
# Every user who can log in, whatever the tags.
ANYBODY: Final[frozenset[str]] = frozenset()


class ApiRequest:
    """One request to a page, after its login. Held by the request."""

    def __init__(self, request: Request, caller: Caller, body: dict[str, object]) -> None:
        self.request = request
        self.caller = caller
        # What the operation's schema describes; empty for operations without one.
        self.body = body

    def named(self, part: str) -> str:
        """A part of the path, decoded."""
        return named(self.request, part)

    def query(self, key: str, default: str = "") -> str:
        return self.request.query_params.get(key, default)

    def is_asked(self, key: str) -> bool:
        """Whether a flag of the query is set."""
        return self.query(key) == "true"


Page = Callable[[ApiRequest], Awaitable[object]]
Admission = Callable[[ApiRequest], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class BodyPlaces:
    """How many large bodies of one kind are read at once. Operations with the same `kind` share
    them.
    """

    kind: str
    count: int
    count_of_user: int


@dataclass(frozen=True, slots=True)
class Created:
    """An answer with 201 (the thing is new) or 204 (it was there). Returned by pages that put."""

    is_new: bool
    location: str = ""


class NoContent:
    """An answer with 204 and no body."""


NO_CONTENT: Final = NoContent()


@dataclass(frozen=True, slots=True)
class RowList:
    """A list, on which `columns`, `sort`, `page` and the filters are applied as the client asks."""

    rows: list[dict[str, object]]


class RecordList:
    """The same of records, whose rows are made when they are shown."""

    __slots__ = ("records",)

    def __init__(self, records: Iterable[Record]) -> None:
        # Its own list, which is emptied when they were shown.
        self.records = list(records)


@dataclass(frozen=True, slots=True)
class Query:
    """A parameter behind the question mark."""

    name: str
    summary: str
    schema: Schema = field(default_factory=lambda: TEXT)
    required: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """A page returns JSON's values, `RowList`, `RecordList`, `Created`, `NO_CONTENT` or a Starlette
    response, and raises a `Problem` or a broker's `Refusal`.
    """

    method: str
    path: str
    page: Page
    summary: str
    # Groups the operations in the document.
    topic: str
    allowed: frozenset[str] = MANAGEMENT
    # None takes no body. An operation whose body may be left out says so.
    body: Schema | None = None
    is_body_optional: bool = False
    # Of a list: the schema of one row.
    answer: Schema = field(default_factory=lambda: ANYTHING)
    queries: tuple[Query, ...] = ()
    # Whether the answer is `RowList` or `RecordList`.
    is_list: bool = False
    # Whether it is answered without a login.
    is_public: bool = False
    # Whether the page reads its body itself; `body` then only describes it, in these media types.
    reads_body: bool = False
    body_types: tuple[str, ...] = ("application/json",)
    # Of an answer with 200; and whether a PUT or DELETE may answer so.
    answer_type: str = "application/json"
    answers: bool = False
    # What a 503 of its own looks like; None has only those of every operation.
    failure: Schema | None = None
    # Statuses besides 200, 201, 204 and those that every operation has (400, 401, 403, 404, ...).
    statuses: tuple[int, ...] = ()
    body_bytes_max: int = 0  # 0 is the usual limit
    # Of an operation with large bodies: raises a `Problem` or a `Refusal` before the body is read,
    # for a caller who may not do this and for what is not there.
    admission: Admission | None = None
    # How many of its large bodies are read at once, in all and of one user; None for the others.
    places: BodyPlaces | None = None
