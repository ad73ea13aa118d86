import pytest

from penstock.broker.arguments import (
    CLASSIC,
    NO_POLICY,
    DeadLetterStrategy,
    Overflow,
    check_queue_arguments,
    settings_of,
)
from penstock.broker.errors import PreconditionFailed

QUEUE = "queue 'q' in vhost '/'"


def refusal(
    arguments: dict[str, object],
    durable: bool = True,
    exclusive: bool = False,
    auto_delete: bool = False,
) -> str:
    """The text of the refusal; empty when the arguments are in order."""
    try:
        check_queue_arguments(QUEUE, arguments, durable, exclusive, auto_delete)
    except PreconditionFailed as refused:
        return refused.text
    return ""


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("x-message-ttl", -1, "{value_negative,-1}"),
        ("x-message-ttl", "10", '"expected integer, got longstr"'),
        ("x-message-ttl", True, '"expected integer, got bool"'),
        ("x-message-ttl", 2**60, f"{{value_too_big,{2**60}}}"),
        ("x-expires", 0, "{value_zero,0}"),
        ("x-expires", -1, "{value_negative,-1}"),
        ("x-max-length", -1, "{value_negative,-1}"),
        ("x-max-length-bytes", "1", '"expected integer, got longstr"'),
        ("x-max-priority", 256, "{max_value_exceeded,256}"),
        ("x-max-priority", -1, "{value_negative,-1}"),
        ("x-overflow", "bogus", "invalid_overflow"),
        ("x-overflow", 1, "{unacceptable_type,signedint}"),
        ("x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"),
        ("x-dead-letter-routing-key", 1, "{unacceptable_type,signedint}"),
        ("x-queue-type", "bogus", "\"unsupported queue type 'bogus'\""),
        ("x-queue-type", 1, "{unacceptable_type,signedint}"),
        ("x-queue-mode", "bogus", "\"unsupported queue mode 'bogus'\""),
        ("x-queue-version", 3, "\"unsupported queue version '3'\""),
        ("x-queue-version", "a", '"expected integer, got longstr"'),
        ("x-single-active-consumer", 1, "{unacceptable_type,signedint}"),
    ],
)
def test_a_bad_value_is_refused_in_rabbitmqs_words(name: str, value: object, reason: str) -> None:
    assert refusal({name: value}) == f"invalid arg '{name}' for {QUEUE}: {reason}"


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-message-ttl": 0},
        {"x-message-ttl": 2**33},
        {"x-expires": 1},
        {"x-max-length": 0},
        {"x-max-priority": 255},
        {"x-overflow": "reject-publish-dlx"},
        {"x-dead-letter-exchange": ""},
        {"x-dead-letter-exchange": "e", "x-dead-letter-routing-key": "k"},
        {"x-queue-mode": "lazy"},
        {"x-queue-version": 1},
        {"x-single-active-consumer": True},
        {"x-unknown-thing": 3},
        {"x-queue-type": "quorum", "x-delivery-limit": -1},
        {"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once"},
        {"x-queue-type": "quorum", "x-quorum-initial-group-size": 1},
    ],
)
def test_what_rabbitmq_takes_is_taken(arguments: dict[str, object]) -> None:
    assert refusal(arguments) == ""


def test_a_dead_letter_exchange_must_be_a_name() -> None:
    text = f"invalid type 'signedint' for arg 'x-dead-letter-exchange' in {QUEUE}"
    assert refusal({"x-dead-letter-exchange": 1}) == text


@pytest.mark.parametrize(
    ("queue_type", "name", "value"),
    [
        ("classic", "x-delivery-limit", 3),
        ("classic", "x-max-age", "1D"),
        ("classic", "x-dead-letter-strategy", "at-least-once"),
        ("classic", "x-quorum-initial-group-size", 1),
        ("quorum", "x-max-priority", 5),
        ("quorum", "x-queue-mode", "lazy"),
        ("quorum", "x-stream-max-segment-size-bytes", 1),
    ],
)
def test_a_type_refuses_what_it_does_not_know(queue_type: str, name: str, value: object) -> None:
    text = f"invalid arg '{name}' for {QUEUE} of queue type rabbit_{queue_type}_queue"
    assert refusal({"x-queue-type": queue_type, name: value}) == text


def test_a_quorum_queue_is_durable_and_shared() -> None:
    quorum: dict[str, object] = {"x-queue-type": "quorum"}
    text = f"invalid property '{{}}' for {QUEUE}"
    assert refusal(quorum, durable=False) == text.format("non-durable")
    assert refusal(quorum, exclusive=True) == text.format("exclusive-owner")
    assert refusal(quorum, auto_delete=True) == text.format("auto-delete")
    assert refusal(quorum) == ""


def test_settings_without_arguments_limit_nothing() -> None:
    settings = settings_of({}, NO_POLICY)
    limits = [
        settings.message_ttl_ms,
        settings.expires_ms,
        settings.max_length,
        settings.max_length_bytes,
        settings.delivery_limit,
    ]
    assert limits == [-1] * 5
    assert settings.overflow is Overflow.DROP_HEAD
    assert settings.queue_type is CLASSIC
    assert settings.dead_letter_exchange is None
    assert settings.max_priority == 0
    assert not settings.single_active_consumer


@pytest.mark.parametrize(
    ("argument", "policy", "expected"),
    [(5, 9, 5), (9, 5, 5), (None, 5, 5), (9, None, 9), (0, 5, 0)],
)
def test_the_smaller_number_wins(argument: int | None, policy: int | None, expected: int) -> None:
    arguments: dict[str, object] = {} if argument is None else {"x-max-length": argument}
    definition: dict[str, object] = {} if policy is None else {"max-length": policy}
    assert settings_of(arguments, definition).max_length == expected


def test_the_argument_wins_over_the_policy_where_there_is_no_smaller() -> None:
    definition: dict[str, object] = {
        "overflow": "drop-head",
        "dead-letter-exchange": "policy",
        "dead-letter-routing-key": "policy",
    }
    settings = settings_of(
        {"x-overflow": "reject-publish", "x-dead-letter-exchange": ""}, definition
    )
    assert settings.overflow is Overflow.REJECT_PUBLISH
    assert settings.dead_letter_exchange == ""
    assert settings.dead_letter_routing_key == "policy"


def test_what_only_quorum_queues_know_does_not_reach_a_classic_one() -> None:
    definition: dict[str, object] = {
        "delivery-limit": 3,
        "dead-letter-strategy": "at-least-once",
    }
    classic = settings_of({}, definition)
    assert classic.delivery_limit == -1
    assert classic.dead_letter_strategy is DeadLetterStrategy.AT_MOST_ONCE
    quorum = settings_of({"x-queue-type": "quorum", "x-delivery-limit": -1}, definition)
    assert quorum.delivery_limit == 3
    assert quorum.dead_letter_strategy is DeadLetterStrategy.AT_LEAST_ONCE
