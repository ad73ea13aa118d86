"""Whether a second declaration means the same object as the first, with RabbitMQ's texts."""

from typing import Final

from penstock.broker.arguments import CLASSIC, KNOWN_ARGUMENTS
from penstock.broker.errors import PreconditionFailed, ResourceLocked
from penstock.broker.exchanges import partitioned
from penstock.broker.exchanges.exchange import Exchange
from penstock.broker.field_types import same_value, type_name
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.replication_level import REPLICATE_ARGUMENT
from penstock.broker.topology import NO_CONNECTION, DeclareExchange, DeclareQueue

ALTERNATE_ARGUMENT: Final = "alternate-exchange"


def check_same_exchange(what: str, known: Exchange, command: DeclareExchange) -> None:
    """`what` reads "exchange 'e' in vhost '/'"."""
    if known.kind != command.kind:
        raise inequivalent(what, "type", f"'{command.kind}'", f"'{known.kind}'")
    check_flag(what, "durable", known.durable, command.durable)
    check_flag(what, "auto_delete", known.auto_delete, command.auto_delete)
    check_flag(what, "internal", known.internal, command.internal)
    check_argument(what, ALTERNATE_ARGUMENT, known.arguments, command.arguments)
    check_argument(what, REPLICATE_ARGUMENT, known.arguments, command.arguments)
    if known.kind == partitioned.KIND:
        check_argument(what, partitioned.COUNT_ARGUMENT, known.arguments, command.arguments)
        check_argument(what, partitioned.BY_ARGUMENT, known.arguments, command.arguments)


def check_same_queue(what: str, known: MessageQueue, command: DeclareQueue) -> None:
    """Raises `ResourceLocked` for another connection's exclusive queue, or `PreconditionFailed`."""
    owner = command.connection if command.exclusive else NO_CONNECTION
    if known.exclusive_owner != owner:
        raise locked(what)
    check_flag(what, "durable", known.durable, command.durable and not command.exclusive)
    check_flag(what, "auto_delete", known.auto_delete, command.auto_delete)
    current = _without_default_type(known.arguments)
    received = _without_default_type(command.arguments)
    for name in KNOWN_ARGUMENTS:
        check_argument(what, name, current, received)


def locked(what: str) -> ResourceLocked:
    return ResourceLocked(
        f"cannot obtain exclusive access to locked {what}. It could be originally declared on "
        "another connection or the exclusive property value does not match that of the "
        "original declaration."
    )


def check_flag(what: str, name: str, current: bool, received: bool) -> None:
    if current != received:
        raise inequivalent(what, name, f"'{_word(received)}'", f"'{_word(current)}'")


def check_argument(
    what: str, name: str, current: dict[str, object], received: dict[str, object]
) -> None:
    if name not in current and name not in received:
        return
    if name not in current:
        raise inequivalent(what, name, _told(received[name]), "none")
    if name not in received:
        raise inequivalent(what, name, "none", _told(current[name]))
    if not same_value(current[name], received[name]):
        raise inequivalent(what, name, f"'{_word(received[name])}'", f"'{_word(current[name])}'")


def inequivalent(what: str, name: str, received: str, current: str) -> PreconditionFailed:
    return PreconditionFailed(
        f"inequivalent arg '{name}' for {what}: received {received} but current is {current}"
    )


def _without_default_type(arguments: dict[str, object]) -> dict[str, object]:
    """Saying that a queue is classic means the same as not saying it."""
    if arguments.get("x-queue-type") == CLASSIC.value:
        return {name: value for name, value in arguments.items() if name != "x-queue-type"}
    return arguments


def _told(value: object) -> str:
    return f"the value '{_word(value)}' of type '{type_name(value)}'"


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
