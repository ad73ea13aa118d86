import pytest

from penstock.broker.errors import PreconditionFailed
from penstock.broker.topology import DeclareExchange, DeclareQueue
from penstock.broker.vhost import VirtualHost
from penstock.dialects.amqp10.nodes.addresses import (
    GRAMMAR,
    check_routing_key,
    exchange_address,
    parse_source,
    parse_target,
    queue_address,
)
from tests.broker.doubles import make_vhost


@pytest.fixture
def vhost() -> VirtualHost:
    vhost = make_vhost()
    vhost.apply(DeclareQueue("orders"), 0)
    vhost.apply(DeclareQueue("both"), 0)
    vhost.apply(DeclareExchange("both", "fanout"), 0)
    vhost.apply(DeclareExchange("news", "topic"), 0)
    return vhost


@pytest.mark.parametrize(
    ("address", "exchange", "key"),
    [
        ("/queues/orders", "", "orders"),
        ("/queues/not-there", "", "not-there"),
        ("/queues/a%2Fb%25%20%C3%A9", "", "a/b% é"),
        ("/queues/é", "", "é"),
        ("/exchanges/news", "news", None),
        ("/exchanges/news/", "news", ""),
        ("/exchanges/news/a.%23", "news", "a.#"),
        ("/exchanges/n%2fs/a%2Fb", "n/s", "a/b"),
        ("/queue/orders", "", "orders"),
        ("/amq/queue/orders", "", "orders"),
        ("/exchange/news/a.b", "news", "a.b"),
        ("/exchange/news", "news", None),
        ("/topic/a.b", "amq.topic", "a.b"),
        ("orders", "", "orders"),
        ("both", "", "both"),
        ("news", "news", None),
        ("not-there", "", "not-there"),
        ("50%", "", "50%"),
        ("a/b", "", "a/b"),
    ],
)
def test_an_address_names_an_exchange_and_a_key(
    vhost: VirtualHost, address: str, exchange: str, key: str | None
) -> None:
    target = parse_target(address, vhost)
    assert target is not None
    assert (target.exchange, target.routing_key) == (exchange, key)
    source = parse_source(address, vhost)
    if exchange:
        assert (source.queue, source.exchange, source.routing_key) == (None, exchange, key)
        assert target.queue is None
    else:
        assert source.queue == target.queue == key


def test_no_address_is_the_anonymous_terminus(vhost: VirtualHost) -> None:
    assert parse_target(None, vhost) is None


def test_a_bare_name_is_an_exchange_first_where_topics_are_meant(vhost: VirtualHost) -> None:
    assert parse_source("both", vhost, prefers_exchange=True).exchange == "both"
    assert parse_source("orders", vhost, prefers_exchange=True).queue == "orders"
    assert parse_source("not-there", vhost, prefers_exchange=True).exchange == "not-there"


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("", "it is empty"),
        ("/", "it does not have a supported form"),
        ("/orders", "it does not have a supported form"),
        ("/queues", "it does not have a supported form"),
        ("/queues/", "the queue name is empty"),
        ("/queues/a/b", "a slash inside a queue name must be written as %2F"),
        ("/topic/", "the routing key is empty"),
        ("/exchanges/", "the exchange name is empty"),
        ("/exchanges//key", "the exchange name is empty"),
        ("/exchanges/news/a/b", "a slash inside a routing key must be written as %2F"),
        ("/queues/50%", "a % in the queue name is not followed by two hexadecimal digits"),
        ("/queues/%4", "a % in the queue name is not followed by two hexadecimal digits"),
        ("/queues/%+4", "a % in the queue name is not followed by two hexadecimal digits"),
        ("/exchanges/%zz", "a % in the exchange name is not followed by two hexadecimal digits"),
        ("/exchanges/x/%C3", "the routing key is not valid UTF-8"),
        ("/exchanges/x/" + "k" * 256, "the routing key is longer than 255 bytes"),
        ("é" * 128, "the name is longer than 255 bytes"),
    ],
)
def test_a_bad_address_is_refused_with_the_reason_and_the_grammar(
    vhost: VirtualHost, address: str, reason: str
) -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        parse_target(address, vhost)
    assert refusal.value.text.startswith(f"invalid address '{address[:80]}")
    assert refusal.value.text.endswith(f"': {reason}; {GRAMMAR}")
    with pytest.raises(PreconditionFailed):
        parse_source(address, vhost)


@pytest.mark.parametrize("name", ["orders", "a/b", "50%", "é ☃", "x" * 255])
def test_an_address_that_we_write_is_read_as_the_same(vhost: VirtualHost, name: str) -> None:
    assert parse_source(queue_address(name), vhost).queue == name
    source = parse_source(exchange_address(name, "k/" + name[:200]), vhost)
    assert (source.exchange, source.routing_key) == (name, "k/" + name[:200])
    assert parse_source(exchange_address(name, None), vhost).routing_key is None


def test_keys_that_come_with_messages_are_short_strings() -> None:
    check_routing_key("k" * 255)
    with pytest.raises(PreconditionFailed, match="longer than 255 bytes"):
        check_routing_key("é" * 128)
