import pytest

from penstock.broker.errors import PreconditionFailed
from penstock.broker.exchanges.headers import HeadersExchange
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
