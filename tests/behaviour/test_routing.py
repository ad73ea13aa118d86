"""Which queues a message reaches: direct, fanout, topic, headers, bindings between exchanges,
alternate exchanges, CC and BCC.
"""

from __future__ import annotations

import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import UnroutableError

from tests.behaviour.expectations import fetch, is_empty, message_count
from tests.behaviour.target import BrokerUnderTest


def reached(
    channel: BlockingChannel,
    exchange: str,
    key: str,
    queue: str,
    headers: dict[str, object] | None = None,
) -> bool:
    """Whether a message published to `exchange` comes to `queue`; the channel must confirm."""
    channel.basic_publish(exchange, key, b"", BasicProperties(headers=headers))
    return channel.basic_get(queue, auto_ack=True)[0] is not None


@pytest.fixture
def channel(broker: BrokerUnderTest) -> BlockingChannel:
    channel = broker.channel()
    channel.confirm_delivery()
    return channel


def test_a_direct_exchange_compares_the_whole_key(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    exchange, queue = broker.exchange(channel), broker.queue(channel)
    channel.queue_bind(queue, exchange, "a.b")
    assert reached(channel, exchange, "a.b", queue)
    assert not reached(channel, exchange, "a", queue)
    assert not reached(channel, exchange, "A.B", queue)


def test_a_fanout_exchange_does_not_look_at_the_key(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    exchange, queue = broker.exchange(channel, "fanout"), broker.queue(channel)
    channel.queue_bind(queue, exchange, "ignored")
    assert reached(channel, exchange, "anything", queue)


def test_two_bindings_of_one_queue_deliver_once(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    exchange, queue = broker.exchange(channel, "topic"), broker.queue(channel)
    for pattern in ("a.*", "a.#", "#"):
        channel.queue_bind(queue, exchange, pattern)
    channel.basic_publish(exchange, "a.b", b"")
    assert message_count(channel, queue) == 1


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("a.b", ["a.b"], ["a", "a.b.c", "a.B", ""]),
        ("*", ["a", "*", "#"], ["a.b", ".", ""]),
        ("#", ["", "a", "a.b", "a..b", "."], []),
        ("a.*", ["a.b", "a."], ["a", "a.b.c", "b.a"]),
        ("*.a", ["b.a", ".a"], ["a", "c.b.a"]),
        ("a.#", ["a", "a.", "a.b", "a.b.c"], ["b", "b.a", "ab"]),
        ("#.a", ["a", "b.a", "c.b.a"], ["a.b", "ba"]),
        ("a.#.b", ["a.b", "a.x.b", "a.x.y.b", "a.b.b"], ["a", "b", "a.b.c"]),
        ("a.*.b", ["a.x.b", "a..b"], ["a.b", "a.x.y.b"]),
        ("#.#", ["", "a", "a.b.c"], []),
        ("*.#", ["a", "a.b", "."], [""]),
        ("#.*", ["a", "a.b"], [""]),
        ("#.a.#", ["a", "x.a", "a.x", "x.a.y"], ["", "x", "x.y"]),
        ("*.*.#", ["a.b", "a.b.c"], ["a", ""]),
        ("a*", ["a*"], ["ab", "a"]),
        ("", [""], ["a"]),
    ],
)
def test_topic_patterns(
    broker: BrokerUnderTest,
    channel: BlockingChannel,
    pattern: str,
    matching: list[str],
    other: list[str],
) -> None:
    exchange, queue = broker.exchange(channel, "topic"), broker.queue(channel)
    channel.queue_bind(queue, exchange, pattern)
    found = [key for key in matching + other if reached(channel, exchange, key, queue)]
    assert found == matching


@pytest.mark.parametrize(
    ("arguments", "headers", "expected"),
    [
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1, "b": "x"}, True),
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1, "b": "x", "c": 0}, True),
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1}, False),
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1, "b": "y"}, False),
        ({"x-match": "any", "a": 1, "b": "x"}, {"b": "x"}, True),
        ({"x-match": "any", "a": 1, "b": "x"}, {"a": 2, "b": "y"}, False),
        ({"x-match": "any", "a": 1, "b": "x"}, {}, False),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, True),
        ({"x-match": "all"}, {"a": 1}, True),
        ({"x-match": "any"}, {"a": 1}, False),
        ({"x-match": "all", "a": "1"}, {"a": 1}, False),
        ({"x-match": "all", "a": 1}, {"a": 2**40}, False),
        ({"x-match": "all", "a": True}, {"a": True}, True),
        ({"x-match": "all", "a": True}, {"a": "true"}, False),
        ({"x-match": "all", "a": None}, {"a": 5}, True),
        ({"x-match": "all", "a": None}, {}, False),
        ({"x-match": "all", "a": {"b": 1}}, {"a": {"b": 1}}, True),
        ({"x-match": "all", "a": 1, "x-b": 2}, {"a": 1}, True),
        ({"x-match": "any", "a": 1, "x-b": 2}, {"x-b": 2}, False),
        ({"x-match": "all-with-x", "a": 1, "x-b": 2}, {"a": 1}, False),
        ({"x-match": "all-with-x", "a": 1, "x-b": 2}, {"a": 1, "x-b": 2}, True),
        ({"x-match": "any-with-x", "a": 1, "x-b": 2}, {"x-b": 2}, True),
    ],
)
def test_headers_matching(
    broker: BrokerUnderTest,
    channel: BlockingChannel,
    arguments: dict[str, object],
    headers: dict[str, object],
    expected: bool,
) -> None:
    exchange, queue = broker.exchange(channel, "headers"), broker.queue(channel)
    channel.queue_bind(queue, exchange, "", arguments=arguments)
    assert reached(channel, exchange, "ignored", queue, headers) is expected


def test_a_message_without_headers_matches_an_empty_all_binding(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    exchange, queue = broker.exchange(channel, "headers"), broker.queue(channel)
    channel.queue_bind(queue, exchange, "", arguments={"x-match": "all"})
    assert reached(channel, exchange, "", queue)


def test_exchanges_pass_on_to_exchanges(broker: BrokerUnderTest, channel: BlockingChannel) -> None:
    source, middle = broker.exchange(channel, "topic"), broker.exchange(channel)
    queue = broker.queue(channel)
    channel.exchange_bind(destination=middle, source=source, routing_key="a.#")
    channel.queue_bind(queue, middle, "a.b")
    channel.basic_publish(source, "a.b", b"through")
    message = fetch(channel, queue)
    assert (message.method.exchange, message.method.routing_key) == (source, "a.b")
    assert not reached(channel, source, "a.c", queue)
    channel.exchange_unbind(destination=middle, source=source, routing_key="a.#")
    assert not reached(channel, source, "a.b", queue)


def test_a_cycle_of_exchanges_delivers_once(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    first, second = broker.exchange(channel, "fanout"), broker.exchange(channel, "fanout")
    queue = broker.queue(channel)
    channel.exchange_bind(destination=second, source=first)
    channel.exchange_bind(destination=first, source=second)
    channel.exchange_bind(destination=first, source=first)
    channel.queue_bind(queue, first, "")
    channel.queue_bind(queue, second, "")
    channel.basic_publish(first, "key", b"")
    assert message_count(channel, queue) == 1


def test_an_internal_exchange_is_reached_by_bindings(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    inner, outer = broker.name(), broker.exchange(channel, "fanout")
    channel.exchange_declare(inner, "fanout", internal=True)
    queue = broker.queue(channel)
    channel.exchange_bind(destination=inner, source=outer)
    channel.queue_bind(queue, inner, "")
    assert reached(channel, outer, "", queue)


def test_what_finds_no_queue_goes_to_the_alternate_exchange(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    alternate = broker.exchange(channel, "fanout")
    exchange = broker.exchange(channel, arguments={"alternate-exchange": alternate})
    queue, fallback = broker.queue(channel), broker.queue(channel)
    channel.queue_bind(queue, exchange, "known")
    channel.queue_bind(fallback, alternate, "")
    assert reached(channel, exchange, "known", queue)
    assert is_empty(channel, fallback)
    channel.basic_publish(exchange, "unknown", b"")
    assert fetch(channel, fallback).method.exchange == exchange


def test_alternate_exchanges_chain(broker: BrokerUnderTest, channel: BlockingChannel) -> None:
    last = broker.exchange(channel, "fanout")
    middle = broker.exchange(channel, arguments={"alternate-exchange": last})
    first = broker.exchange(channel, arguments={"alternate-exchange": middle})
    queue = broker.queue(channel)
    channel.queue_bind(queue, last, "")
    assert reached(channel, first, "key", queue)


def test_a_cycle_of_alternate_exchanges_ends_in_a_return(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    first, second = broker.name(), broker.name()
    channel.exchange_declare(first, "direct", arguments={"alternate-exchange": second})
    channel.exchange_declare(second, "direct", arguments={"alternate-exchange": first})
    with pytest.raises(UnroutableError):
        channel.basic_publish(first, "key", b"", mandatory=True)


def test_an_alternate_exchange_that_is_not_there_is_passed_over(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    exchange = broker.exchange(channel, arguments={"alternate-exchange": broker.name()})
    with pytest.raises(UnroutableError):
        channel.basic_publish(exchange, "key", b"", mandatory=True)


def test_cc_and_bcc_add_routing_keys_and_bcc_is_hidden(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    plain, copied, blind = (broker.queue(channel) for _ in range(3))
    headers: dict[str, object] = {"CC": [copied], "BCC": [blind], "other": 1}
    channel.basic_publish("", plain, b"", BasicProperties(headers=headers))
    for queue in (plain, copied, blind):
        message = fetch(channel, queue)
        assert message.headers == {"CC": [copied], "other": 1}
        assert message.method.routing_key == plain


def test_cc_that_reaches_the_same_queue_delivers_once(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel)
    channel.basic_publish("", queue, b"", BasicProperties(headers={"CC": [queue, queue]}))
    assert message_count(channel, queue) == 1


def test_cc_makes_a_mandatory_message_routable(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel)
    properties = BasicProperties(headers={"CC": [queue]})
    channel.basic_publish("", broker.name("missing"), b"", properties, mandatory=True)
    assert message_count(channel, queue) == 1


def test_deleting_a_queue_takes_its_bindings_along(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    exchange, queue = broker.exchange(channel), broker.queue(channel)
    channel.queue_bind(queue, exchange, "key")
    channel.queue_delete(queue)
    channel.queue_declare(queue, exclusive=True)
    assert not reached(channel, exchange, "key", queue)


def test_deleting_an_exchange_takes_its_bindings_along(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    exchange, queue = broker.exchange(channel), broker.queue(channel)
    channel.queue_bind(queue, exchange, "key")
    channel.exchange_delete(exchange)
    channel.exchange_declare(exchange, "direct")
    assert not reached(channel, exchange, "key", queue)
