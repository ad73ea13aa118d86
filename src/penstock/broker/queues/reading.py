"""How somebody reads a queue whose messages stay: where it begins, what it wants, how far it is.

`x-stream-offset` has RabbitMQ's words and units. Queues whose messages leave have no use for it.
"""

from enum import Enum
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.errors import PreconditionFailed
from penstock.broker.field_types import type_name
from penstock.broker.header_values import Timestamp
from penstock.broker.intervals import SECOND_MS, milliseconds_of
from penstock.broker.message import Message

OFFSET_ARGUMENT: Final = "x-stream-offset"


class StartKind(Enum):
    FIRST = "first"
    LAST = "last"
    NEXT = "next"
    # After the named cursor of the consumer; Penstock's own.
    CURSOR = "cursor"
    OFFSET = "an offset"
    TIMESTAMP = "a time"
    INTERVAL = "a time ago"


class Start:
    """Where a reader wants to begin. `value` is an offset or milliseconds, else 0."""

    def __init__(self, kind: StartKind, value: int) -> None:
        self.kind: StartKind = kind
        self.value: int = value


@mypyc_attr(allow_interpreted_subclasses=True)
class MessageFilter:
    """What a reader wants. Held by one reader."""

    def wants(self, message: Message) -> bool:
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class ReadPosition:
    """How far a reader has come. Only the queue that it was got from can use it."""


class Reading:
    """What a consumer asks for when it subscribes."""

    def __init__(self, start: Start, cursor: str = "", wanted: MessageFilter | None = None) -> None:
        self.start: Start = start
        # The name of the cursor under which the queue keeps its progress; empty for none.
        self.cursor: str = cursor
        # None when every message is wanted.
        self.wanted: MessageFilter | None = wanted


def start_of(queue: str, arguments: dict[str, object], has_cursor: bool) -> Start:
    """Raises `PreconditionFailed`. `queue` reads "queue 'q' in vhost '/'"."""
    if OFFSET_ARGUMENT not in arguments:
        return Start(StartKind.CURSOR if has_cursor else StartKind.NEXT, 0)
    value = arguments[OFFSET_ARGUMENT]
    if isinstance(value, Timestamp):
        return Start(StartKind.TIMESTAMP, value.seconds * SECOND_MS)
    if isinstance(value, int) and not isinstance(value, bool):
        return Start(StartKind.OFFSET, max(value, 0))
    if isinstance(value, str):
        if value == StartKind.FIRST.value:
            return Start(StartKind.FIRST, 0)
        if value == StartKind.LAST.value:
            return Start(StartKind.LAST, 0)
        if value == StartKind.NEXT.value:
            return Start(StartKind.NEXT, 0)
        if value == StartKind.CURSOR.value and has_cursor:
            return Start(StartKind.CURSOR, 0)
        interval = milliseconds_of(value)
        if interval > 0:
            return Start(StartKind.INTERVAL, interval)
    raise PreconditionFailed(
        f"invalid arg '{OFFSET_ARGUMENT}' for {queue}: {{invalid_stream_offset_arg,{_term(value)}}}"
    )


def _term(value: object) -> str:
    """As RabbitMQ prints an argument with its type."""
    shown = f'<<"{value}">>' if isinstance(value, str) else str(value).lower()
    return f"{{{type_name(value)},{shown}}}"
