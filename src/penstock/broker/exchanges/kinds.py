"""The exchange types by their names, and how to make one."""

from typing import Final

from penstock.broker.errors import CommandInvalid, PreconditionFailed
from penstock.broker.exchanges import delayed, partitioned
from penstock.broker.exchanges.consistent_hash import ConsistentHashExchange
from penstock.broker.exchanges.direct import DirectExchange
from penstock.broker.exchanges.exchange import Exchange
from penstock.broker.exchanges.fanout import FanoutExchange
from penstock.broker.exchanges.headers import HeadersExchange
from penstock.broker.exchanges.topic import TopicExchange

DIRECT: Final = "direct"
FANOUT: Final = "fanout"
TOPIC: Final = "topic"
HEADERS: Final = "headers"
CONSISTENT_HASH: Final = "x-consistent-hash"

KINDS: Final = (DIRECT, FANOUT, TOPIC, HEADERS, CONSISTENT_HASH, delayed.KIND, partitioned.KIND)

# What a delayed exchange cannot route as.
_WHOLE_KINDS: Final = (delayed.KIND, partitioned.KIND)


def check_kind(kind: str) -> None:
    if not kind:
        raise CommandInvalid("invalid exchange type ''")
    if kind not in KINDS:
        raise CommandInvalid(f"unknown exchange type '{kind}'")


def make_exchange(
    name: str,
    kind: str,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    arguments: dict[str, object],
) -> Exchange:
    """An exchange without bindings; raises a refusal for arguments that its type cannot take."""
    check_kind(kind)
    if kind == DIRECT:
        return DirectExchange(name, kind, durable, auto_delete, internal, arguments)
    if kind == FANOUT:
        return FanoutExchange(name, kind, durable, auto_delete, internal, arguments)
    if kind == TOPIC:
        return TopicExchange(name, kind, durable, auto_delete, internal, arguments)
    if kind == HEADERS:
        return HeadersExchange(name, kind, durable, auto_delete, internal, arguments)
    if kind == CONSISTENT_HASH:
        return ConsistentHashExchange(name, kind, durable, auto_delete, internal, arguments)
    if kind == partitioned.KIND:
        return partitioned.PartitionedStreamExchange(
            name, kind, durable, auto_delete, internal, arguments
        )
    inner = inner_kind(arguments)
    return delayed.DelayedExchange(
        make_exchange(name, inner, durable, auto_delete, internal, arguments)
    )


def inner_kind(arguments: dict[str, object]) -> str:
    """The type that a delayed exchange routes as."""
    kind = arguments.get(delayed.TYPE_ARGUMENT)
    if not isinstance(kind, str) or kind not in KINDS or kind in _WHOLE_KINDS:
        raise PreconditionFailed(
            f"Invalid argument, '{delayed.TYPE_ARGUMENT}' must be an existing exchange type"
        )
    return kind
