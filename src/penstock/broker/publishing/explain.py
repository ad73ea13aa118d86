"""Where a message would go, and why: exchange by exchange, binding by binding.

The queues are found by the very code that publishes; a trace of it says which exchanges were passed
and which bindings selected. Only the words are added here.

Invariant: nothing is published, counted, delayed or dispatched, and no exchange's turn is taken.
"""

from collections.abc import Iterator
from typing import Final

from penstock.broker.arguments import Overflow
from penstock.broker.binding import Bindings
from penstock.broker.exchanges.delayed import KIND as DELAYED
from penstock.broker.exchanges.delayed import TYPE_ARGUMENT, DelayedExchange
from penstock.broker.exchanges.exchange import Binding, Exchange
from penstock.broker.exchanges.headers import HeadersPattern
from penstock.broker.exchanges.topic_trie import ANY_WORDS, ONE_WORD, words_of
from penstock.broker.message import Address, Properties
from penstock.broker.publishing.routing import RouteTrace
from penstock.broker.publishing.target import Target, foreseen_target
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.routing_table import RoutingTable

PUBLISHED: Final = "publish"
BOUND: Final = "binding"
ALTERNATE: Final = "alternate exchange"


class PassedExchange:
    """An exchange that the message would pass. Held by the explanation."""

    def __init__(self, exchange: Exchange, reached_by: str, reached_from: str) -> None:
        self.exchange: Exchange = exchange
        self.reached_by: str = reached_by
        # The exchange that leads here; empty for the first.
        self.reached_from: str = reached_from
        # Bindings that were selected, with the keys that they were selected for.
        self.selected: dict[Binding, list[str]] = {}
        self.is_delaying: bool = False
        # What is said where no binding was selected.
        self.note: str = ""


class Explanation(RouteTrace):
    """Held by who asked."""

    def __init__(
        self,
        vhost: RoutingTable,
        bindings: Bindings,
        exchange: Exchange,
        routing_key: str,
        properties: Properties,
    ) -> None:
        self._bindings: Bindings = bindings
        self._properties: Properties = properties
        self.keys: list[str] = [routing_key]
        if properties.has_extra_keys:
            self.keys.extend(properties.extra_keys())
        self.passed: dict[Exchange, PassedExchange] = {
            exchange: PassedExchange(exchange, PUBLISHED, "")
        }
        self.target: Target = foreseen_target(
            vhost, exchange, Address(exchange.name, routing_key, b""), properties, self
        )

    # What routing says.

    def matched(self, exchange: Exchange, key: str, bindings: list[Binding]) -> None:
        passed = self.passed[exchange]
        for binding in bindings:
            keys = passed.selected.setdefault(binding, [])
            if key not in keys:
                keys.append(key)
            following = binding.destination_exchange
            if following is not None and following not in self.passed:
                self.passed[following] = PassedExchange(following, BOUND, exchange.name)

    def matched_default(self, exchange: Exchange) -> None:
        names = ", ".join([f"'{key}'" for key in self.keys])
        self.passed[exchange].note = f"the default exchange knows queues by name: {names}"

    def delayed(self, exchange: DelayedExchange) -> None:
        passed = self.passed[exchange]
        passed.is_delaying = True
        delay = exchange.delay_of(self._properties)
        passed.note = f"the message waits here for {delay} ms and is routed then, by the bindings of that time"

    def unmatched(self, exchange: Exchange, alternate: Exchange | None, is_new: bool) -> None:
        passed = self.passed[exchange]
        if alternate is None:
            name = exchange.alternate_name
            passed.note = "no binding matches, and there is no alternate exchange"
            if name is not None:
                passed.note = f"no binding matches, and the alternate exchange '{name}' is missing"
            return
        passed.note = f"no binding matches: the alternate exchange '{alternate.name}' gets it"
        if not is_new:
            passed.note += ", which has had it already"
        elif alternate not in self.passed:
            self.passed[alternate] = PassedExchange(alternate, ALTERNATE, exchange.name)

    # What people want to know.

    def bindings_of(self, passed: PassedExchange) -> Iterator[Binding]:
        """Those that were selected first."""
        yield from passed.selected
        if not passed.is_delaying:
            for binding in self._bindings.from_source(passed.exchange):
                if binding not in passed.selected:
                    yield binding

    def why(self, passed: PassedExchange, binding: Binding) -> str:
        """Why a binding was selected, or not."""
        kind = routing_kind(passed.exchange)
        keys = passed.selected.get(binding)
        if keys is None:
            return why_not(kind, binding, self.keys, self._properties)
        return why_selected(kind, binding, keys)

    def room_in(self, queue: MessageQueue, body_bytes: int) -> str:
        """What a full queue would do with a message of this size; empty when there is room."""
        settings = queue.settings
        is_full = (
            0 <= settings.max_length <= queue.ready_count
            or 0 <= settings.max_length_bytes < queue.ready_bytes + body_bytes
        )
        if not is_full or queue.keeps_messages:
            return ""
        what = "drops its oldest message for it"
        if settings.overflow is Overflow.REJECT_PUBLISH:
            what = "refuses the message"
        elif settings.overflow is Overflow.REJECT_PUBLISH_DLX:
            what = "refuses the message and dead-letters it"
        free = ", unless a consumer takes one first" if queue.consumer_count else ""
        return f"the queue is full and {what} ({settings.overflow.value}){free}"


def routing_kind(exchange: Exchange) -> str:
    """How an exchange routes; a delayed one as the type that its argument names."""
    if exchange.kind == DELAYED:
        return str(exchange.arguments.get(TYPE_ARGUMENT))
    return exchange.kind


def why_selected(kind: str, binding: Binding, keys: list[str]) -> str:
    key = keys[0]
    if kind == "fanout":
        return "a fanout exchange selects every binding"
    if kind == "direct":
        return f"the binding key is the routing key '{key}'"
    if kind == "topic":
        return f"the pattern '{binding.routing_key}' matches the routing key '{key}'"
    if kind == "headers":
        pattern = HeadersPattern(binding.arguments)
        if pattern.wants_any:
            return "at least one of the headers that the binding wants is there"
        return "every header that the binding wants is there"
    return "the message belongs to this binding"


def why_not(kind: str, binding: Binding, keys: list[str], properties: Properties) -> str:
    said = " or ".join([f"'{key}'" for key in keys])
    if kind == "direct":
        return f"the binding key '{binding.routing_key}' is not the routing key {said}"
    if kind == "topic":
        reasons = [topic_objection(binding.routing_key, key) for key in keys]
        return f"the pattern '{binding.routing_key}' does not match: {'; '.join(reasons)}"
    if kind == "headers":
        pattern = HeadersPattern(binding.arguments)
        objections = pattern.objections(properties.headers())
        if not objections:
            return "the binding wants any of no headers"
        return "; ".join(objections)
    return "the message belongs to another binding"


def topic_objection(pattern: str, key: str) -> str:
    """The first word that differs, where there is one before any `#`."""
    wanted = words_of(pattern)
    words = words_of(key)
    for index, word in enumerate(wanted):
        if word == ANY_WORDS:
            return f"no words of '{key}' fit what is behind '{ANY_WORDS}'"
        if index >= len(words):
            return f"'{key}' has only {len(words)} words"
        if word not in {ONE_WORD, words[index]}:
            return f"word {index + 1} of '{key}' is '{words[index]}', not '{word}'"
    return f"'{key}' has more than {len(wanted)} words"
