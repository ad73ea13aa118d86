from random import Random

import pytest

from penstock.broker.errors import PreconditionFailed
from penstock.broker.exchanges.exchange import Binding
from penstock.broker.exchanges.headers import HeadersExchange, HeadersPattern
from penstock.broker.header_values import Timestamp
from tests.broker.doubles import bind, matched


def headers_exchange() -> HeadersExchange:
    return HeadersExchange("e", "headers", False, False, False, {})


@pytest.mark.parametrize(
    ("arguments", "headers", "matches"),
    [
        ({"a": 1, "b": "x"}, {"a": 1, "b": "x", "c": 2}, True),
        ({"a": 1, "b": "x"}, {"a": 1}, False),
        ({"x-match": "all", "a": 1}, {"a": 2}, False),
        ({"x-match": "any", "a": 1, "b": 2}, {"b": 2}, True),
        ({"x-match": "any", "a": 1, "b": 2}, {"b": 1}, False),
        ({}, {}, True),
        ({"x-match": "all"}, {"a": 1}, True),
        ({"x-match": "any"}, {"a": 1}, False),
        ({"a": None}, {"a": "anything"}, True),
        ({"a": None}, {}, False),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": 1.0}, False),
        ({"a": True}, {"a": "true"}, False),
        ({"x-a": 1}, {}, True),
        ({"x-match": "all-with-x", "x-a": 1}, {}, False),
        ({"x-match": "all-with-x", "x-a": 1}, {"x-a": 1}, True),
        ({"x-match": "any", "x-a": 1}, {"x-a": 1}, False),
        ({"x-match": "any-with-x", "x-a": 1}, {"x-a": 1}, True),
    ],
)
def test_arguments_are_compared_with_headers(
    arguments: dict[str, object], headers: dict[str, object], matches: bool
) -> None:
    exchange = headers_exchange()
    binding = bind(exchange, "q", "", arguments)
    assert matched(exchange, "", headers) == (["q"] if matches else [])
    exchange.remove(binding)
    assert matched(exchange, "", headers) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            "bogus",
            'Invalid x-match field value <<"bogus">>; expected all, any, all-with-x, or any-with-x',
        ),
        (5, "Invalid x-match field type signedint (value 5); expected longstr"),
    ],
)
def test_an_unknown_match_is_refused(value: object, text: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        headers_exchange().check_binding("", {"x-match": value})
    assert refused.value.text == text


def test_routes_through_it_are_not_cached_by_key() -> None:
    assert not headers_exchange().by_key_only


def test_a_message_is_compared_with_few_of_many_bindings() -> None:
    """Five thousand bindings of twenty arguments, nineteen of which all of them share."""
    exchange = headers_exchange()
    shared: dict[str, object] = {f"h{number}": f"v{number}" for number in range(19)}
    for number in range(5_000):
        bind(exchange, f"d{number}", arguments={**shared, "last": number})
    assert matched(exchange, "", {**shared, "last": 4_711}) == ["d4711"]
    assert exchange.compared <= 20
    assert matched(exchange, "", {**shared, "last": -1}) == []
    assert exchange.compared <= 20


NAMES = ("a", "b", "x-c")
VALUES: tuple[object, ...] = (1, 1.0, True, "1", None, b"1", [1], {"k": 1}, Timestamp(1), 0, "")
KINDS = ("all", "any", "all-with-x", "any-with-x")


def test_bindings_are_found_in_order_and_exactly_those_that_match() -> None:
    """Whatever is bound and unbound, the buckets find what comparing all patterns finds."""
    dice = Random(7)
    for _ in range(60):
        exchange = headers_exchange()
        bound: list[Binding] = []
        for number in range(30):
            arguments: dict[str, object] = {
                name: dice.choice(VALUES) for name in NAMES if dice.random() < 0.6
            }
            arguments["x-match"] = dice.choice(KINDS)
            bound.append(bind(exchange, f"d{number}", arguments=arguments))
        for binding in dice.sample(bound, 10):
            exchange.remove(binding)
            bound.remove(binding)
        for _ in range(20):
            headers = {name: dice.choice(VALUES) for name in NAMES if dice.random() < 0.7}
            expected = [
                binding.destination_name
                for binding in bound
                if HeadersPattern(binding.arguments).matches(headers)
            ]
            assert matched(exchange, "", headers) == expected
        for binding in bound:
            exchange.remove(binding)
        assert matched(exchange, "", {"a": 1}) == []
