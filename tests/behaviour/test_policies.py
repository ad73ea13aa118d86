"""Policies: arguments an operator gives by pattern, after the fact."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pika import spec
from pika.adapters.blocking_connection import BlockingChannel

from tests.behaviour.expectations import (
    eventually,
    fetch,
    fetch_bodies,
    is_empty,
    message_count,
)
from tests.behaviour.target import BrokerUnderTest, PolicyRefusedError

pytestmark = pytest.mark.administered

SetPolicy = Callable[..., str]


@pytest.fixture
def channel(broker: BrokerUnderTest) -> BlockingChannel:
    channel = broker.channel()
    channel.confirm_delivery()
    return channel


@pytest.fixture
def set_policy(broker: BrokerUnderTest) -> Iterator[SetPolicy]:
    names = []

    def set_one(
        pattern: str,
        definition: dict[str, object],
        priority: int = 0,
        apply_to: str = "all",
        name: str = "",
    ) -> str:
        name = name or broker.name("policy")
        broker.administration.set_policy(
            broker.vhost, name, pattern, definition, priority, apply_to
        )
        names.append(name)
        return name

    yield set_one
    for name in set(names):
        broker.administration.clear_policy(broker.vhost, name)


def fill(channel: BlockingChannel, queue: str, count: int) -> int:
    """Empty the queue, fill it and return how many it kept. A broker applies a policy soon, not
    at once: tests ask until it shows.
    """
    channel.queue_purge(queue)
    for number in range(count):
        channel.basic_publish("", queue, str(number).encode())
    return message_count(channel, queue)


def test_a_policy_applies_to_queues_that_are_there(
    broker: BrokerUnderTest, channel: BlockingChannel, set_policy: SetPolicy
) -> None:
    queue = broker.queue(channel)
    assert fill(channel, queue, 3) == 3
    set_policy(f"^{queue}$", {"max-length": 2})
    eventually(lambda: message_count(channel, queue) == 2)
    assert fetch_bodies(channel, queue, 2) == [b"1", b"2"]


def test_a_policy_applies_to_queues_declared_later(
    broker: BrokerUnderTest, channel: BlockingChannel, set_policy: SetPolicy
) -> None:
    stem = broker.name("stem")
    set_policy(f"^{stem}", {"max-length": 2})
    channel.queue_declare(stem + "-later", exclusive=True)
    assert fill(channel, stem + "-later", 3) == 2


def test_a_policy_does_not_make_declares_differ(
    broker: BrokerUnderTest, channel: BlockingChannel, set_policy: SetPolicy
) -> None:
    queue = broker.queue(channel)
    set_policy(f"^{queue}$", {"max-length": 2, "message-ttl": 60_000})
    eventually(lambda: fill(channel, queue, 3) == 2)
    channel.queue_declare(queue, exclusive=True)


def test_a_cleared_policy_no_longer_applies(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue, name = broker.queue(channel), broker.name("policy")
    administration = broker.administration
    administration.set_policy(broker.vhost, name, f"^{queue}$", {"max-length": 1})
    eventually(lambda: fill(channel, queue, 3) == 1)
    administration.clear_policy(broker.vhost, name)
    eventually(lambda: fill(channel, queue, 3) == 3)


def test_a_policy_set_again_is_replaced(
    broker: BrokerUnderTest, channel: BlockingChannel, set_policy: SetPolicy
) -> None:
    queue = broker.queue(channel)
    name = set_policy(f"^{queue}$", {"max-length": 1})
    eventually(lambda: fill(channel, queue, 3) == 1)
    set_policy(f"^{queue}$", {"max-length": 2}, name=name)
    eventually(lambda: fill(channel, queue, 3) == 2)


def test_the_highest_priority_applies_alone(
    broker: BrokerUnderTest, channel: BlockingChannel, set_policy: SetPolicy
) -> None:
    queue = broker.queue(channel)
    set_policy(f"^{queue}$", {"max-length": 2}, 3)
    eventually(lambda: fill(channel, queue, 4) == 2)
    set_policy(f"^{queue}$", {"max-length": 1}, 1)
    assert fill(channel, queue, 4) == 2
    set_policy(f"^{queue}$", {"message-ttl": 60_000}, 5)
    # Definitions are not merged: the one that applies says nothing about length.
    eventually(lambda: fill(channel, queue, 4) == 4)


def test_the_pattern_may_match_anywhere(
    broker: BrokerUnderTest, channel: BlockingChannel, set_policy: SetPolicy
) -> None:
    queue = broker.queue(channel)
    set_policy(queue[2:], {"max-length": 1})
    eventually(lambda: fill(channel, queue, 3) == 1)


def test_of_argument_and_policy_the_smaller_limit_counts(
    broker: BrokerUnderTest, channel: BlockingChannel, set_policy: SetPolicy
) -> None:
    stem = broker.name("stem")
    set_policy(f"^{stem}", {"max-length": 2})
    for argument, kept in ((1, 1), (3, 2)):
        queue = f"{stem}-{argument}"
        channel.queue_declare(queue, exclusive=True, arguments={"x-max-length": argument})
        assert fill(channel, queue, 4) == kept


def test_of_argument_and_policy_the_arguments_dead_letter_exchange_counts(
    broker: BrokerUnderTest, channel: BlockingChannel, set_policy: SetPolicy
) -> None:
    by_argument, by_policy = (broker.exchange(channel, "fanout") for _ in range(2))
    expected, other = broker.queue(channel), broker.queue(channel)
    channel.queue_bind(expected, by_argument, "")
    channel.queue_bind(other, by_policy, "")
    stem = broker.name("stem")
    set_policy(f"^{stem}", {"dead-letter-exchange": by_policy})
    for name, arguments in (("own", {"x-dead-letter-exchange": by_argument}), ("none", {})):
        queue = f"{stem}-{name}"
        channel.queue_declare(queue, exclusive=True, arguments=arguments)
        channel.basic_publish("", queue, name.encode())
        channel.basic_reject(fetch_tag(channel, queue), requeue=False)
    assert fetch(channel, expected).body == b"own"
    assert fetch(channel, other).body == b"none"


def fetch_tag(channel: BlockingChannel, queue: str) -> int:
    return fetch(channel, queue, auto_ack=False).tag


def test_a_policy_gives_a_time_to_live(
    broker: BrokerUnderTest, channel: BlockingChannel, set_policy: SetPolicy
) -> None:
    queue = broker.queue(channel)
    set_policy(f"^{queue}$", {"message-ttl": 20})
    channel.basic_publish("", queue, b"")
    eventually(lambda: is_empty(channel, queue))


def test_a_policy_lets_an_idle_queue_expire(
    broker: BrokerUnderTest, channel: BlockingChannel, set_policy: SetPolicy
) -> None:
    exchange = broker.exchange(channel)
    channel.exchange_delete(exchange)
    channel.exchange_declare(exchange, "direct", auto_delete=True)
    queue = broker.queue(channel, exclusive=False)
    channel.queue_bind(queue, exchange, "key")
    set_policy(f"^{queue}$", {"expires": 50})
    # Asking for the queue would keep it; its going takes the auto-delete exchange along.
    eventually(lambda: not exchange_exists(broker, exchange))


def exchange_exists(broker: BrokerUnderTest, exchange: str) -> bool:
    connection = broker.raw_open()
    connection.send_method(1, spec.Exchange.Declare(exchange=exchange, passive=True))
    return isinstance(connection.read_frame().method, spec.Exchange.DeclareOk)


def test_a_policy_gives_an_alternate_exchange(
    broker: BrokerUnderTest, channel: BlockingChannel, set_policy: SetPolicy
) -> None:
    exchange, alternate = broker.exchange(channel), broker.exchange(channel, "fanout")
    queue = broker.queue(channel)
    channel.queue_bind(queue, alternate, "")
    set_policy(f"^{exchange}$", {"alternate-exchange": alternate})

    def arrives() -> bool:
        channel.basic_publish(exchange, "unknown", b"")
        return message_count(channel, queue) > 0

    eventually(arrives)


@pytest.mark.parametrize(("apply_to", "applies"), [("queues", True), ("exchanges", False)])
def test_a_policy_may_be_for_queues_or_exchanges_only(
    broker: BrokerUnderTest,
    channel: BlockingChannel,
    set_policy: SetPolicy,
    apply_to: str,
    applies: bool,
) -> None:
    stem = broker.name("stem")
    definition: dict[str, object] = {"max-length": 1}
    if not applies:
        definition = {"alternate-exchange": "amq.fanout"}
    set_policy(f"^{stem}", {"max-length": 2}, 1, "queues")
    set_policy(f"^{stem}", definition, 5, apply_to)
    channel.queue_declare(stem, exclusive=True)
    assert fill(channel, stem, 3) == (1 if applies else 2)


@pytest.mark.parametrize(
    "definition",
    [
        {"no-such-key": 1},
        {"max-length": -1},
        {"max-length": "1"},
        {"message-ttl": -1},
        {"expires": 0},
        {"overflow": "bogus"},
        {"dead-letter-exchange": 1},
        {},
    ],
    ids=str,
)
def test_a_senseless_definition_is_refused(
    broker: BrokerUnderTest, set_policy: SetPolicy, definition: dict[str, object]
) -> None:
    with pytest.raises(PolicyRefusedError):
        set_policy(f"^{broker.name()}$", definition)


def test_a_pattern_that_is_no_regular_expression_is_refused(
    broker: BrokerUnderTest, set_policy: SetPolicy
) -> None:
    with pytest.raises(PolicyRefusedError):
        set_policy("(", {"max-length": 1})
