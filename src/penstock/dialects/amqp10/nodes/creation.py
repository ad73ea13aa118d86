"""Nodes that an attach makes: dynamic ones, and named ones that are created when they are missing.

A named node is created when the terminus has the capability `create`, or has dynamic-node-properties
together with the capability `queue` or `topic`. In these properties `x-...` are the arguments of a
queue, `durable`, `auto-delete` and `exclusive` its flags, `exchange-type` the type of an exchange,
and `lifetime-policy` says when the queue is deleted.

A bare name of which there is neither a queue nor an exchange is created as a queue without being asked
for, if the user may configure it and the operator has not turned that off (`create_bare_queue`). The
other forms of an address never create anything by themselves.
"""

from typing import Final

from penstock.broker.access.permissions import Permission, ResourceKind
from penstock.broker.arguments import STREAM
from penstock.broker.errors import NotFound, PreconditionFailed
from penstock.broker.exchanges.exchange import Exchange
from penstock.broker.exchanges.kinds import TOPIC
from penstock.broker.names import RESERVED_PREFIX, described, server_named
from penstock.broker.topology import DeclareExchange, DeclareQueue, DeleteExchange
from penstock.broker.vhost import VirtualHost
from penstock.dialects.amqp10.messages.neutral_values import plain_text, to_neutral
from penstock.dialects.amqp10.nodes.lifetimes import (
    LIFETIME_PROPERTY,
    Lifetime,
    NodeLife,
    read_lifetime,
    written_lifetime,
)
from penstock.dialects.principal import Principal
from penstock.world.entropy import Entropy

CREATE: Final = "create"
QUEUE_CAPABILITIES: Final = frozenset({"queue", "temporary-queue"})
TOPIC_CAPABILITIES: Final = frozenset({"topic", "temporary-topic"})
_ARGUMENT_PREFIX: Final = "x-"
_TYPE_PROPERTY: Final = "exchange-type"


class TemporaryTopic:
    """An exchange that is deleted with the link that made it, whatever lifetime was asked for. Held
    by that link's node.
    """

    def __init__(self, vhost: VirtualHost, exchange: Exchange) -> None:
        self.exchange: Exchange = exchange
        self._vhost: VirtualHost = vhost

    def end(self, now: int) -> None:
        name = self.exchange.name
        if self._vhost.exchanges.get(name) is self.exchange:
            self._vhost.apply(DeleteExchange(name), now)


def means_topic(capabilities: list[str]) -> bool:
    """Whether a terminus says that it stands for a topic and not for a queue."""
    return not TOPIC_CAPABILITIES.isdisjoint(capabilities)


def means_stream(properties: dict[str, object] | None) -> bool:
    return (properties or {}).get("x-queue-type") == STREAM.value


def wants_creation(capabilities: list[str], properties: dict[str, object] | None) -> bool:
    if CREATE in capabilities:
        return True
    if properties is None:
        return False
    return means_topic(capabilities) or not QUEUE_CAPABILITIES.isdisjoint(capabilities)


def create_queue(
    principal: Principal,
    vhost: VirtualHost,
    name: str,
    properties: dict[str, object] | None,
    connection_number: int,
    now: int,
) -> NodeLife | None:
    """Create a missing queue, durable unless its properties say otherwise. None when they give no
    lifetime.
    """
    lifetime = read_lifetime(properties)
    _check_name(name)
    command = DeclareQueue(
        name,
        # A lifetime is known to this process only.
        durable=lifetime is None and _flag(properties, "durable", True),
        exclusive=_flag(properties, "exclusive", False),
        auto_delete=_flag(properties, "auto-delete", False),
        arguments=_arguments(properties),
        connection=connection_number,
    )
    principal.check(command)
    vhost.apply(command, now)
    return None if lifetime is None else NodeLife(vhost, vhost.queue(name), lifetime)


def create_bare_queue(
    principal: Principal,
    vhost: VirtualHost,
    name: str,
    properties: dict[str, object] | None,
    connection_number: int,
    now: int,
) -> NodeLife | None:
    """As `create_queue`, for an attach that named a queue and did not ask for its creation. Raises
    `NotFound` when the user may not create it.
    """
    if not principal.access.may(Permission.CONFIGURE, ResourceKind.QUEUE, name):
        raise NotFound(
            f"no {described('queue', name, vhost.name)}; it was not created, because user "
            f"'{principal.user}' has no configure permission for it"
        )
    return create_queue(principal, vhost, name, properties, connection_number, now)


def create_exchange(
    principal: Principal,
    vhost: VirtualHost,
    name: str,
    properties: dict[str, object] | None,
    now: int,
) -> None:
    kind = (properties or {}).get(_TYPE_PROPERTY, TOPIC)
    if not isinstance(kind, str):
        raise PreconditionFailed(f"invalid node property '{_TYPE_PROPERTY}': expected a string")
    _check_name(name)
    command = DeclareExchange(
        name,
        plain_text(kind),
        durable=_flag(properties, "durable", True),
        auto_delete=_flag(properties, "auto-delete", False),
        arguments=_arguments(properties),
    )
    principal.check(command)
    vhost.apply(command, now)


def create_dynamic_queue(
    principal: Principal,
    vhost: VirtualHost,
    name: str,
    properties: dict[str, object] | None,
    may_be_exclusive: bool,
    connection_number: int,
    now: int,
) -> NodeLife:
    """A transient queue with a generated name. One that is deleted with its link and that only its
    own connection receives from is exclusive, so it is deleted with the connection in any case.
    """
    lifetime = read_lifetime(properties) or Lifetime.ON_CLOSE
    command = DeclareQueue(
        name,
        exclusive=may_be_exclusive and lifetime is Lifetime.ON_CLOSE,
        arguments=_arguments(properties),
        connection=connection_number,
        server_named=True,
    )
    principal.check(command)
    vhost.apply(command, now)
    return NodeLife(vhost, vhost.queue(name), lifetime)


def create_temporary_topic(
    principal: Principal, vhost: VirtualHost, entropy: Entropy, now: int
) -> TemporaryTopic:
    # The prefix is reserved for what the broker itself predeclares.
    name = server_named(entropy).removeprefix(RESERVED_PREFIX)
    command = DeclareExchange(name, TOPIC)
    principal.check(command)
    principal.check_publish(name)
    vhost.apply(command, now)
    return TemporaryTopic(vhost, vhost.exchange(name))


def answered_properties(
    lifetime: Lifetime, properties: dict[str, object] | None
) -> dict[str, object]:
    """The properties that a dynamic node has."""
    answered: dict[str, object] = {LIFETIME_PROPERTY: written_lifetime(lifetime)}
    answered.update(
        {
            name: value
            for name, value in (properties or {}).items()
            if name.startswith(_ARGUMENT_PREFIX)
        }
    )
    return answered


def _check_name(name: str) -> None:
    """AMQP 0-9-1 drops line breaks from names; then this one could never be addressed."""
    if "\r" in name or "\n" in name:
        raise PreconditionFailed(f"the name of a node must not contain line breaks: {name!r}")


def _arguments(properties: dict[str, object] | None) -> dict[str, object]:
    return {
        name: to_neutral(value)
        for name, value in (properties or {}).items()
        if name.startswith(_ARGUMENT_PREFIX)
    }


def _flag(properties: dict[str, object] | None, name: str, default: bool) -> bool:
    value = (properties or {}).get(name, default)
    if not isinstance(value, bool):
        raise PreconditionFailed(f"invalid node property '{name}': expected a boolean")
    return value
