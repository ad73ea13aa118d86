"""What a queue's arguments mean, once they are checked, and together with its policy.

Checks and texts are RabbitMQ's, which prints its own terms (`{value_negative,-1}`) in them.

Invariants: a `QueueArguments` is never changed after `settings_of` returned it; -1 stands for "no
limit" in every number.
"""

from enum import Enum
from typing import Final

from penstock.broker.errors import PreconditionFailed
from penstock.broker.field_types import type_name
from penstock.broker.intervals import milliseconds_of
from penstock.broker.replication_level import REPLICATE_ARGUMENT, check_lasting, level_fault
from penstock.storage.stream_log import SEGMENT_BYTES_MAX

PRIORITY_MAX: Final = 255  # a priority is one octet in AMQP 0-9-1
# The longest time to live or until expiry: a hundred years, as RabbitMQ's. Longer is a mistake.
MILLISECONDS_MAX: Final = 1000 * 86400 * 365 * 100
# The largest value of a journal record and of a file offset; also keeps sums inside 63 bits.
COUNT_MAX: Final = 2**62
NONE: Final = -1

NO_POLICY: Final[dict[str, object]] = {}


class Overflow(Enum):
    """What a full queue does."""

    DROP_HEAD = "drop-head"
    REJECT_PUBLISH = "reject-publish"
    REJECT_PUBLISH_DLX = "reject-publish-dlx"


class DeadLetterStrategy(Enum):
    AT_MOST_ONCE = "at-most-once"
    AT_LEAST_ONCE = "at-least-once"


# Arguments that both sides of a declaration must agree on, in the order RabbitMQ compares them;
# all other arguments are kept and ignored.
KNOWN_ARGUMENTS: Final = (
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-max-priority",
    "x-overflow",
    "x-queue-mode",
    "x-queue-version",
    "x-single-active-consumer",
    "x-queue-type",
    "x-quorum-initial-group-size",
    "x-max-age",
    "x-stream-max-segment-size-bytes",
    "x-initial-cluster-size",
    "x-queue-leader-locator",
    "x-delivery-limit",
    REPLICATE_ARGUMENT,
)

_STREAM_ONLY: Final = frozenset(
    {"x-max-age", "x-stream-max-segment-size-bytes", "x-initial-cluster-size"}
)


class QueueType:
    """What `x-queue-type` asks for. There is one object per type; compared by identity."""

    def __init__(self, value: str, module_name: str, unsupported: frozenset[str]) -> None:
        # The argument's value.
        self.value: str = value
        # How RabbitMQ calls the type where it refuses an argument that the type does not know.
        self.module_name: str = module_name
        # Those of the known arguments that it refuses.
        self.unsupported: frozenset[str] = unsupported


CLASSIC: Final = QueueType(
    "classic",
    "rabbit_classic_queue",
    _STREAM_ONLY
    | {
        "x-dead-letter-strategy",
        "x-delivery-limit",
        "x-max-in-memory-bytes",
        "x-max-in-memory-length",
        "x-quorum-initial-group-size",
    },
)
QUORUM: Final = QueueType(
    "quorum",
    "rabbit_quorum_queue",
    _STREAM_ONLY | {"x-max-priority", "x-queue-mode", "x-queue-version"},
)
STREAM: Final = QueueType(
    "stream",
    "rabbit_stream_queue",
    frozenset(KNOWN_ARGUMENTS)
    - _STREAM_ONLY
    - {"x-max-length-bytes", "x-queue-type", "x-queue-leader-locator"},
)
TYPE_ARGUMENT: Final = "x-queue-type"
STANDARD_TYPES: Final[dict[str, QueueType]] = {
    CLASSIC.value: CLASSIC,
    QUORUM.value: QUORUM,
    STREAM.value: STREAM,
}

_QUEUE_MODES: Final = ("default", "lazy")
_QUEUE_VERSIONS: Final = (1, 2)
_LEADER_LOCATORS: Final = ("client-local", "balanced", "random", "least-leaders")


class QueueArguments:
    """The settings a queue works by: its arguments and its policy, checked. Held by the queue."""

    def __init__(self) -> None:
        self.queue_type: QueueType = CLASSIC
        self.message_ttl_ms: int = NONE
        self.expires_ms: int = NONE
        self.max_length: int = NONE
        self.max_length_bytes: int = NONE
        self.overflow: Overflow = Overflow.DROP_HEAD
        self.dead_letter_exchange: str | None = None
        self.dead_letter_routing_key: str | None = None
        self.dead_letter_strategy: DeadLetterStrategy = DeadLetterStrategy.AT_MOST_ONCE
        self.delivery_limit: int = NONE
        self.max_priority: int = 0
        self.single_active_consumer: bool = False
        # Of streams.
        self.max_age_ms: int = NONE
        self.segment_bytes_max: int = NONE


def type_of(
    arguments: dict[str, object], types: dict[str, QueueType] = STANDARD_TYPES
) -> QueueType:
    """The type that checked arguments ask for."""
    return types[_text(arguments, TYPE_ARGUMENT) or CLASSIC.value]


def settings_of(
    arguments: dict[str, object],
    policy: dict[str, object],
    types: dict[str, QueueType] = STANDARD_TYPES,
) -> QueueArguments:
    """The settings that checked arguments and the definition of a policy amount to.

    As in RabbitMQ the smaller number wins where both give one, and the argument elsewhere.
    """
    settings = QueueArguments()
    settings.queue_type = type_of(arguments, types)
    settings.message_ttl_ms = _smaller(arguments, "x-message-ttl", policy, "message-ttl")
    settings.expires_ms = _smaller(arguments, "x-expires", policy, "expires")
    settings.max_length = _smaller(arguments, "x-max-length", policy, "max-length")
    settings.max_length_bytes = _smaller(
        arguments, "x-max-length-bytes", policy, "max-length-bytes"
    )
    settings.overflow = Overflow(
        _either(arguments, "x-overflow", policy, "overflow") or Overflow.DROP_HEAD.value
    )
    settings.dead_letter_exchange = _either(
        arguments, "x-dead-letter-exchange", policy, "dead-letter-exchange"
    )
    settings.dead_letter_routing_key = _either(
        arguments, "x-dead-letter-routing-key", policy, "dead-letter-routing-key"
    )
    if settings.queue_type is QUORUM:
        settings.dead_letter_strategy = DeadLetterStrategy(
            _either(arguments, "x-dead-letter-strategy", policy, "dead-letter-strategy")
            or DeadLetterStrategy.AT_MOST_ONCE.value
        )
        settings.delivery_limit = _smaller(arguments, "x-delivery-limit", policy, "delivery-limit")
    if settings.queue_type is STREAM:
        age = _either(arguments, "x-max-age", policy, "max-age")
        settings.max_age_ms = NONE if age is None else milliseconds_of(age)
        settings.segment_bytes_max = _smaller(
            arguments,
            "x-stream-max-segment-size-bytes",
            policy,
            "stream-max-segment-size-bytes",
        )
    settings.max_priority = max(_number(arguments, "x-max-priority"), 0)
    settings.single_active_consumer = arguments.get("x-single-active-consumer") is True
    return settings


def check_queue_arguments(
    queue: str,
    arguments: dict[str, object],
    durable: bool,
    exclusive: bool,
    auto_delete: bool,
    types: dict[str, QueueType] = STANDARD_TYPES,
) -> None:
    """Raise `PreconditionFailed` for what RabbitMQ refuses. `queue` reads "queue 'q' in vhost '/'"."""
    dead_letter_exchange = arguments.get("x-dead-letter-exchange")
    if dead_letter_exchange is not None and not isinstance(dead_letter_exchange, str):
        raise PreconditionFailed(
            f"invalid type '{type_name(dead_letter_exchange)}' "
            f"for arg 'x-dead-letter-exchange' in {queue}"
        )
    for name in KNOWN_ARGUMENTS:
        if name in arguments:
            reason = _fault(name, arguments[name], arguments, types)
            if reason:
                raise PreconditionFailed(f"invalid arg '{name}' for {queue}: {reason}")
    queue_type = type_of(arguments, types)
    for name in KNOWN_ARGUMENTS:
        if name in arguments and name in queue_type.unsupported:
            raise PreconditionFailed(
                f"invalid arg '{name}' for {queue} of queue type {queue_type.module_name}"
            )
    check_lasting(queue, durable, exclusive, arguments)
    if queue_type is QUORUM:
        _check_quorum_properties(queue, durable, exclusive, auto_delete)
    if queue_type is STREAM:
        _check_stream(queue, arguments, durable, exclusive, auto_delete)


def _check_quorum_properties(queue: str, durable: bool, exclusive: bool, auto_delete: bool) -> None:
    wrong = ""
    if not durable:
        wrong = "non-durable"
    elif auto_delete:
        wrong = "auto-delete"
    elif exclusive:
        wrong = "exclusive-owner"
    if wrong:
        raise PreconditionFailed(f"invalid property '{wrong}' for {queue}")


def _check_stream(
    queue: str, arguments: dict[str, object], durable: bool, exclusive: bool, auto_delete: bool
) -> None:
    wrong = ""
    if auto_delete:
        wrong = "auto-delete"
    elif exclusive:
        wrong = "exclusive-owner"
    elif not durable:
        wrong = "non-durable"
    if wrong:
        raise PreconditionFailed(f"invalid property '{wrong}' for {queue}")
    if _number(arguments, "x-stream-max-segment-size-bytes") > SEGMENT_BYTES_MAX:
        raise PreconditionFailed("Exceeded max value for x-stream-max-segment-size-bytes")


def _fault(
    name: str, value: object, arguments: dict[str, object], types: dict[str, QueueType]
) -> str:
    """Why RabbitMQ refuses this value, in its words; empty when it does not."""
    if name in {"x-message-ttl", "x-expires"}:
        return _milliseconds_fault(value, name == "x-expires")
    if name in {
        "x-max-length",
        "x-max-length-bytes",
        "x-stream-max-segment-size-bytes",
    } or name.startswith("x-max-in-memory-"):
        return _count_fault(value)
    if name == "x-max-priority":
        fault = _count_fault(value)
        if not fault and isinstance(value, int) and value > PRIORITY_MAX:
            fault = f"{{max_value_exceeded,{value}}}"
        return fault
    if name in {"x-quorum-initial-group-size", "x-initial-cluster-size"}:
        fault = _count_fault(value)
        return "{value_zero,0}" if not fault and value == 0 else fault
    if name == "x-delivery-limit":
        return "" if _is_integer(value) else _not_an_integer(value)
    if name == "x-queue-version":
        if not _is_integer(value):
            return _not_an_integer(value)
        return "" if value in _QUEUE_VERSIONS else f"\"unsupported queue version '{value}'\""
    if name == REPLICATE_ARGUMENT:
        return level_fault(value)
    if name == "x-single-active-consumer":
        return "" if isinstance(value, bool) else _unacceptable(value)
    return _word_fault(name, value, arguments, types)


def _word_fault(
    name: str, value: object, arguments: dict[str, object], types: dict[str, QueueType]
) -> str:
    if not isinstance(value, str):
        return _unacceptable(value)
    if name == "x-max-age":
        return "" if milliseconds_of(value) > 0 else "invalid_max_age"
    if name == "x-dead-letter-routing-key":
        return "" if "x-dead-letter-exchange" in arguments else "routing_key_but_no_dlx_defined"
    if name == "x-dead-letter-strategy":
        known = [strategy.value for strategy in DeadLetterStrategy]
        return "" if value in known else "invalid_dlx_strategy"
    if name == "x-overflow":
        known = [overflow.value for overflow in Overflow]
        return "" if value in known else "invalid_overflow"
    if name == "x-queue-type":
        return "" if value in types else f"\"unsupported queue type '{value}'\""
    if name == "x-queue-mode":
        return "" if value in _QUEUE_MODES else f"\"unsupported queue mode '{value}'\""
    if name == "x-queue-leader-locator":
        return "" if value in _LEADER_LOCATORS else "invalid_queue_locator_arg"
    return ""


def _milliseconds_fault(value: object, must_be_positive: bool) -> str:
    fault = _count_fault(value)
    if fault or not isinstance(value, int):
        return fault
    if must_be_positive and value == 0:
        return "{value_zero,0}"
    return f"{{value_too_big,{value}}}" if value > MILLISECONDS_MAX else ""


def _count_fault(value: object) -> str:
    if not isinstance(value, int) or isinstance(value, bool):
        return _not_an_integer(value)
    if value < 0:
        return f"{{value_negative,{value}}}"
    return f"{{value_too_big,{value}}}" if value > COUNT_MAX else ""


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _not_an_integer(value: object) -> str:
    return f'"expected integer, got {type_name(value)}"'


def _unacceptable(value: object) -> str:
    return f"{{unacceptable_type,{type_name(value)}}}"


def _number(table: dict[str, object], name: str) -> int:
    value = table.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= COUNT_MAX:
        return value
    return NONE


def _text(table: dict[str, object], name: str) -> str | None:
    value = table.get(name)
    return value if isinstance(value, str) else None


def _smaller(
    arguments: dict[str, object], argument: str, policy: dict[str, object], key: str
) -> int:
    one = _number(arguments, argument)
    other = _number(policy, key)
    if one < 0 or other < 0:
        return max(one, other)
    return min(one, other)


def _either(
    arguments: dict[str, object], argument: str, policy: dict[str, object], key: str
) -> str | None:
    given = _text(arguments, argument)
    return given if given is not None else _text(policy, key)
