"""Filters of a source: which messages of a node a link wants, and where in a stream it begins.

A filter is known by its descriptor, a symbol or a number; where the value has none, by its name in
the map. Each kind makes sense at some nodes only. A filter that is unknown, or makes no sense at
this node, is left out of the answer's map, and so the peer learns that it is not in force. An
invalid filter of a known kind refuses the link.
"""

from enum import Enum
from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.errors import PreconditionFailed
from penstock.broker.exchanges import delayed
from penstock.broker.exchanges.exchange import Exchange
from penstock.broker.exchanges.kinds import DIRECT, HEADERS, TOPIC
from penstock.broker.names import NAME_OCTETS_MAX
from penstock.broker.queues.reading import OFFSET_ARGUMENT, Start, StartKind, start_of
from penstock.broker.selectors.message_subject import MessageSubject
from penstock.broker.selectors.selector import Selector
from penstock.broker.streams.filters import HEADERS_FILTER, KEY_FILTER, StreamFilter, filter_of
from penstock.dialects.amqp10.messages.neutral_values import plain_text, to_neutral
from penstock.dialects.amqp10.nodes.addresses import check_routing_key
from penstock.dialects.amqp10.nodes.stream_filters import LinkStreamFilter
from penstock.wire.amqp10.values import Array, Described, Symbol, Timestamp

SELECTOR_FILTER: Final = "apache.org:selector-filter:string"
NO_LOCAL_FILTER: Final = "apache.org:no-local-filter:list"


class FilterKind(Enum):
    SELECTOR = "selector"
    NO_LOCAL = "no local messages"
    DIRECT_BINDING = "key of a direct exchange"
    TOPIC_BINDING = "pattern of a topic exchange"
    HEADERS_BINDING = "arguments of a headers exchange"
    STREAM_CURSOR = "named cursor"
    STREAM_OFFSET = "where to begin"
    STREAM_VALUES = "filter values"
    STREAM_UNMARKED = "also messages without a filter value"
    STREAM_KEYS = "patterns of routing keys"
    STREAM_HEADERS = "headers"


class Place(Enum):
    """Kinds of node, as far as they matter to filters."""

    QUEUE = "queue"
    STREAM = "stream"
    DIRECT = "direct exchange"
    TOPIC = "topic exchange"
    HEADERS = "headers exchange"
    OTHER_EXCHANGE = "exchange"


# The numbers are registered with Apache, the last with OASIS.
_KINDS: Final[dict[object, FilterKind]] = {
    SELECTOR_FILTER: FilterKind.SELECTOR,
    0x0000_468C_0000_0004: FilterKind.SELECTOR,
    "jms-selector": FilterKind.SELECTOR,
    "amqp:sql-filter": FilterKind.SELECTOR,
    0x120: FilterKind.SELECTOR,
    NO_LOCAL_FILTER: FilterKind.NO_LOCAL,
    0x0000_468C_0000_0003: FilterKind.NO_LOCAL,
    "apache.org:legacy-amqp-direct-binding:string": FilterKind.DIRECT_BINDING,
    0x0000_468C_0000_0000: FilterKind.DIRECT_BINDING,
    "apache.org:legacy-amqp-topic-binding:string": FilterKind.TOPIC_BINDING,
    0x0000_468C_0000_0001: FilterKind.TOPIC_BINDING,
    "apache.org:legacy-amqp-headers-binding:map": FilterKind.HEADERS_BINDING,
    0x0000_468C_0000_0002: FilterKind.HEADERS_BINDING,
    "penstock:stream-cursor": FilterKind.STREAM_CURSOR,
    "rabbitmq:stream-offset-spec": FilterKind.STREAM_OFFSET,
    "rabbitmq:stream-filter": FilterKind.STREAM_VALUES,
    "rabbitmq:stream-match-unfiltered": FilterKind.STREAM_UNMARKED,
    "penstock:stream-filter-routing-key": FilterKind.STREAM_KEYS,
    "penstock:stream-filter-headers": FilterKind.STREAM_HEADERS,
}

_STREAM_KINDS: Final = frozenset(
    {
        FilterKind.SELECTOR,
        FilterKind.STREAM_CURSOR,
        FilterKind.STREAM_OFFSET,
        FilterKind.STREAM_VALUES,
        FilterKind.STREAM_UNMARKED,
        FilterKind.STREAM_KEYS,
        FilterKind.STREAM_HEADERS,
    }
)
_EVERYWHERE: Final = frozenset({FilterKind.SELECTOR, FilterKind.NO_LOCAL})
_BINDING_KINDS: Final[dict[Place, FilterKind]] = {
    Place.DIRECT: FilterKind.DIRECT_BINDING,
    Place.TOPIC: FilterKind.TOPIC_BINDING,
    Place.HEADERS: FilterKind.HEADERS_BINDING,
}


class Selection:
    """What one link wants of its node. Held by its `SourceNode`."""

    def __init__(self, connection_number: int) -> None:
        # All of them must match.
        self.selectors: list[Selector] = []
        self.no_local: bool = False
        self._origin: int = connection_number
        # Where a stream's reader begins, its named cursor or empty, and what it wants; these are
        # what a `Reading` says.
        self.start: Start = Start(StartKind.NEXT, 0)
        self.cursor: str = ""
        self.stream_filter: StreamFilter | None = None
        # Of the binding that a subscription makes; None when no filter says.
        self.binding_key: str | None = None
        self.binding_arguments: dict[str, object] | None = None
        # The filters that are in force, as they came, for the answer's source.
        self.in_force: dict[str, object] = {}

    @property
    def is_selective(self) -> bool:
        """Whether a queue's consumer has to be asked `wants` for each message."""
        return self.no_local or bool(self.selectors)

    def wants(self, entry: QueueEntry) -> bool:
        message = entry.message
        if self.no_local and message.origin == self._origin:
            return False
        if self.selectors:
            subject = MessageSubject(message, entry.delivery_count, entry.is_redelivered)
            for selector in self.selectors:
                if not selector.matches(subject):
                    return False
        return True

    def selector_text(self) -> str:
        """One selector that says the same; empty when there is none."""
        if len(self.selectors) == 1:
            return self.selectors[0].text
        return " AND ".join([f"({selector.text})" for selector in self.selectors])


class _Filter:
    """One item of the map."""

    def __init__(self, name: str, kind: FilterKind, value: object) -> None:
        self.name: str = name
        self.kind: FilterKind = kind
        self.value: object = value


def place_of(exchange: Exchange) -> Place:
    kind: object = exchange.kind
    if kind == delayed.KIND:
        kind = exchange.arguments.get(delayed.TYPE_ARGUMENT)
    if kind == DIRECT:
        return Place.DIRECT
    if kind == TOPIC:
        return Place.TOPIC
    return Place.HEADERS if kind == HEADERS else Place.OTHER_EXCHANGE


def read_selection(
    filters: dict[str, object] | None,
    place: Place,
    is_shared: bool,
    node: str,
    connection_number: int,
) -> Selection:
    """Raises `PreconditionFailed`. `node` reads "queue 'q' in vhost '/'". Subscribers that share a
    subscription cannot have no-local: a message that one of them may not get another one must.
    """
    selection = Selection(connection_number)
    known: dict[FilterKind, _Filter] = {}
    for name, value in (filters or {}).items():
        item = _read(name, value)
        if item is None or not _is_known(item.kind, place, is_shared):
            continue
        selection.in_force[name] = value
        known[item.kind] = item
        if item.kind is FilterKind.SELECTOR:
            selection.selectors.append(Selector.parse(_text(item)))
    selection.no_local = FilterKind.NO_LOCAL in known
    if place is Place.STREAM:
        _read_stream(selection, known, node)
    else:
        _read_binding(selection, known)
    return selection


def _read(name: str, value: object) -> _Filter | None:
    described: object = name
    if isinstance(value, Described):
        described = value.descriptor
        value = value.value
    if value is None and described == name:
        # A null stands for no filter.
        return None
    kind = _KINDS.get(described) if isinstance(described, (str, int)) else None
    return None if kind is None else _Filter(name, kind, value)


def _is_known(kind: FilterKind, place: Place, is_shared: bool) -> bool:
    if place is Place.STREAM:
        return kind in _STREAM_KINDS
    if kind is FilterKind.NO_LOCAL and is_shared:
        return False
    return kind in _EVERYWHERE or _BINDING_KINDS.get(place) is kind


def _read_binding(selection: Selection, known: dict[FilterKind, _Filter]) -> None:
    for kind in (FilterKind.DIRECT_BINDING, FilterKind.TOPIC_BINDING):
        item = known.get(kind)
        if item is not None:
            selection.binding_key = _text(item)
            check_routing_key(selection.binding_key)
    headers = known.get(FilterKind.HEADERS_BINDING)
    if headers is not None:
        selection.binding_arguments = _table(headers)


def _read_stream(selection: Selection, known: dict[FilterKind, _Filter], node: str) -> None:
    cursor = known.get(FilterKind.STREAM_CURSOR)
    if cursor is not None:
        selection.cursor = _text(cursor)
        if not 0 < len(selection.cursor.encode(errors="surrogateescape")) <= NAME_OCTETS_MAX:
            raise _invalid(
                cursor.name, f"the name of a cursor must have 1 to {NAME_OCTETS_MAX} bytes"
            )
    offset = known.get(FilterKind.STREAM_OFFSET)
    selection.start = _start(offset, bool(selection.cursor), node)
    arguments: dict[str, object] = {}
    keys = known.get(FilterKind.STREAM_KEYS)
    if keys is not None:
        arguments[KEY_FILTER] = _texts(keys)
    headers = known.get(FilterKind.STREAM_HEADERS)
    if headers is not None:
        arguments[HEADERS_FILTER] = _table(headers)
    inner = filter_of(node, arguments)
    marks = known.get(FilterKind.STREAM_VALUES)
    if marks is None and not selection.selectors:
        selection.stream_filter = inner
        return
    unmarked = known.get(FilterKind.STREAM_UNMARKED)
    selection.stream_filter = LinkStreamFilter(
        inner,
        selection.selectors,
        None if marks is None else frozenset(_texts(marks)),
        unmarked is not None and _flag(unmarked),
    )


def _start(offset: _Filter | None, has_cursor: bool, node: str) -> Start:
    if offset is None:
        return start_of(node, {}, has_cursor)
    if isinstance(offset.value, Timestamp):
        return Start(StartKind.TIMESTAMP, max(int(offset.value), 0))
    return start_of(node, {OFFSET_ARGUMENT: to_neutral(offset.value)}, has_cursor)


def _text(item: _Filter) -> str:
    if not isinstance(item.value, str):
        raise _invalid(item.name, f"expected a string, got {_type_name(item.value)}")
    return plain_text(item.value)


def _texts(item: _Filter) -> list[str]:
    value = item.value
    if isinstance(value, str):
        return [plain_text(value)]
    items = value.items if isinstance(value, Array) else value
    if not isinstance(items, list):
        raise _invalid(item.name, f"expected strings, got {_type_name(value)}")
    texts: list[str] = []
    for text in items:
        if not isinstance(text, str):
            raise _invalid(item.name, f"expected strings, got {_type_name(text)}")
        texts.append(plain_text(text))
    return texts


def _table(item: _Filter) -> dict[str, object]:
    if not isinstance(item.value, dict):
        raise _invalid(item.name, f"expected a map, got {_type_name(item.value)}")
    table: dict[str, object] = {}
    for key, value in item.value.items():
        if not isinstance(key, str):
            raise _invalid(item.name, f"expected strings as keys, got {_type_name(key)}")
        table[plain_text(key)] = to_neutral(value)
    return table


def _flag(item: _Filter) -> bool:
    if not isinstance(item.value, bool):
        raise _invalid(item.name, f"expected a boolean, got {_type_name(item.value)}")
    return item.value


def _type_name(value: object) -> str:
    return "null" if value is None else type(value).__name__.lower()


def _invalid(name: str, reason: str) -> PreconditionFailed:
    return PreconditionFailed(f"invalid filter '{name}': {reason}")


def described_selector(text: str) -> Described:
    """A selector as it stands in a filter map."""
    return Described(Symbol(SELECTOR_FILTER), text)


def described_no_local() -> Described:
    nothing: list[object] = []
    return Described(Symbol(NO_LOCAL_FILTER), nothing)
