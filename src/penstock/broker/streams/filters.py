"""What a reader wants of a stream: by routing key, by headers, or both. Applied on the broker."""

from typing import Final

from penstock.broker.errors import PreconditionFailed
from penstock.broker.exchanges.exchange import Binding
from penstock.broker.exchanges.headers import HeadersPattern
from penstock.broker.exchanges.topic import TopicExchange
from penstock.broker.field_types import type_name
from penstock.broker.message import Address, Message
from penstock.broker.queues.reading import MessageFilter

KEY_FILTER: Final = "x-stream-filter-routing-key"
HEADERS_FILTER: Final = "x-stream-filter-headers"
# A filter costs each message a walk over its patterns; more belong into bindings.
PATTERNS_MAX: Final = 1000


class StreamFilter(MessageFilter):
    """Held by one reader."""

    def __init__(self, patterns: list[str], headers: dict[str, object] | None) -> None:
        # A topic exchange of our own decides, so that a pattern means what it means in a binding.
        self._topics: TopicExchange | None = None
        if patterns:
            topics = TopicExchange("", "topic", False, False, False, {})
            for pattern in dict.fromkeys(patterns):
                topics.add(Binding(topics, None, topics, pattern, {}))
            self._topics = topics
        self._headers: HeadersPattern | None = None if headers is None else HeadersPattern(headers)
        self._found: list[Binding] = []
        # The verdict on the last address, which most messages share with the one before.
        self._address: Address | None = None
        self._wants_key: bool = True

    def wants(self, message: Message) -> bool:
        topics = self._topics
        if topics is not None:
            if message.address is not self._address:
                self._address = message.address
                self._found.clear()
                topics.match(message.address.routing_key, message.properties, self._found)
                self._wants_key = bool(self._found)
            if not self._wants_key:
                return False
        if self._headers is not None:
            return self._headers.matches(message.properties.headers())
        return True


def filter_of(queue: str, arguments: dict[str, object]) -> StreamFilter | None:
    """None when every message is wanted. Raises `PreconditionFailed`."""
    patterns = _patterns(queue, arguments.get(KEY_FILTER))
    headers = arguments.get(HEADERS_FILTER)
    if headers is not None and not isinstance(headers, dict):
        raise _invalid(queue, HEADERS_FILTER, f"expected table, got {type_name(headers)}")
    if not patterns and headers is None:
        return None
    return StreamFilter(patterns, headers)


def _patterns(queue: str, value: object) -> list[str]:
    if value is None:
        return []
    given = value if isinstance(value, list) else [value]
    patterns: list[str] = []
    for pattern in given:
        if not isinstance(pattern, str):
            raise _invalid(queue, KEY_FILTER, f"expected longstr, got {type_name(pattern)}")
        patterns.append(pattern)
    if len(patterns) > PATTERNS_MAX:
        raise _invalid(queue, KEY_FILTER, f"more than {PATTERNS_MAX} patterns")
    if not patterns:
        raise _invalid(queue, KEY_FILTER, "no pattern")
    return patterns


def _invalid(queue: str, name: str, reason: str) -> PreconditionFailed:
    return PreconditionFailed(f"invalid arg '{name}' for {queue}: \"{reason}\"")
