"""The two simplest types of exchange: direct goes by an equal key, fanout by none."""

from penstock.broker.exchanges.direct import DirectExchange
from penstock.broker.exchanges.fanout import FanoutExchange
from tests.broker.doubles import bind, matched


def test_direct_selects_by_equal_key_in_order_of_binding() -> None:
    exchange = DirectExchange("e", "direct", False, False, False, {})
    bind(exchange, "one", "a")
    bind(exchange, "other", "b")
    bind(exchange, "two", "a")
    assert matched(exchange, "a") == ["one", "two"]
    assert matched(exchange, "c") == []


def test_direct_forgets_what_is_removed() -> None:
    exchange = DirectExchange("e", "direct", False, False, False, {})
    one = bind(exchange, "one", "a")
    two = bind(exchange, "two", "a")
    exchange.remove(one)
    assert matched(exchange, "a") == ["two"]
    exchange.remove(two)
    assert matched(exchange, "a") == []


def test_fanout_selects_every_binding_whatever_the_key() -> None:
    exchange = FanoutExchange("e", "fanout", False, False, False, {})
    one = bind(exchange, "one", "a")
    bind(exchange, "two", "b")
    assert matched(exchange, "c") == ["one", "two"]
    exchange.remove(one)
    assert matched(exchange, "a") == ["two"]
