from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.broker.errors import PreconditionFailed
from penstock.broker.exchanges.consistent_hash import WEIGHT_MAX, ConsistentHashExchange
from penstock.broker.exchanges.exchange import Binding
from tests.broker.doubles import PlainProperties, bind, matched

KEYS = [f"key {number}" for number in range(400)]


def hash_exchange(arguments: dict[str, object] | None = None) -> ConsistentHashExchange:
    return ConsistentHashExchange("e", "x-consistent-hash", False, False, False, arguments or {})


def placed(exchange: ConsistentHashExchange) -> dict[str, str]:
    places = {}
    for key in KEYS:
        found = matched(exchange, key)
        assert len(found) == 1
        places[key] = found[0]
    return places


NAMES = st.lists(st.text("abcdef", min_size=1, max_size=4), min_size=2, max_size=6, unique=True)


@settings(max_examples=25, deadline=None)
@given(NAMES, st.integers(1, 3))
def test_a_new_binding_only_takes_and_its_removal_only_gives_back(
    names: list[str], weight: int
) -> None:
    exchange = hash_exchange()
    for name in names[1:]:
        bind(exchange, name, "1")
    before = placed(exchange)
    added = bind(exchange, names[0], str(weight))
    after = placed(exchange)
    moved = {key for key in KEYS if before[key] != after[key]}
    assert all(after[key] == names[0] for key in moved)
    exchange.remove(added)
    assert placed(exchange) == before


def test_the_order_of_binding_does_not_matter() -> None:
    one, other = hash_exchange(), hash_exchange()
    for name in ("a", "b", "c"):
        bind(one, name, "1")
    for name in ("c", "a", "b"):
        bind(other, name, "1")
    assert placed(one) == placed(other)


def test_weights_share_out_the_keys() -> None:
    exchange = hash_exchange()
    bind(exchange, "light", "1")
    bind(exchange, "heavy", "3")
    shares = Counter(matched(exchange, f"key {number}")[0] for number in range(4000))
    # A quarter, give or take what 100 points per unit of weight leave to chance.
    assert 700 < shares["light"] < 1300


def test_without_bindings_nothing_is_selected() -> None:
    assert matched(hash_exchange(), "key") == []


def test_a_header_can_be_hashed_in_place_of_the_key() -> None:
    exchange = hash_exchange({"hash-header": "shard"})
    assert not exchange.by_key_only
    for name in ("a", "b", "c"):
        bind(exchange, name, "1")
    same = {matched(exchange, key, {"shard": "s"})[0] for key in KEYS}
    assert len(same) == 1
    different = {matched(exchange, "key", {"shard": key})[0] for key in KEYS}
    assert different == {"a", "b", "c"}
    assert len({matched(exchange, key)[0] for key in KEYS}) == 1, "without the header: one binding"


def test_a_property_can_be_hashed_in_place_of_the_key() -> None:
    exchange = hash_exchange({"hash-property": "message_id"})
    assert not exchange.by_key_only
    for name in ("a", "b", "c"):
        bind(exchange, name, "1")
    chosen: dict[str, set[str]] = {}
    for key in KEYS:
        for text in ("one", "two", "three", "four", "five"):
            found: list[Binding] = []
            properties = PlainProperties()
            properties.texts["message_id"] = text
            exchange.match(key, properties, found)
            chosen.setdefault(text, set()).add(found[0].destination_name)
    assert all(len(names) == 1 for names in chosen.values())
    assert len(set().union(*chosen.values())) > 1


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("abc", 'The binding key must be an integer: <<"abc">>'),
        ("", "The binding key must be an integer: <<>>"),
        ("1.5", 'The binding key must be an integer: <<"1.5">>'),
        ("٣", 'The binding key must be an integer: <<"٣">>'),
        ("0", "The binding key must be greater than 0"),
        ("-1", "The binding key must be greater than 0"),
        ("-9999999", "The binding key must be greater than 0"),
        ("1" * 250, f"The binding key must not be greater than {WEIGHT_MAX}"),
    ],
)
def test_a_weight_that_is_none_is_refused(key: str, text: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        hash_exchange().check_binding(key, {})
    assert refused.value.text == text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"hash-header": "a", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
        ),
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
        ({"hash-header": 1}, "hash-header must be a string, got signedint"),
    ],
)
def test_what_is_hashed_must_be_clear(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        hash_exchange(arguments)
    assert refused.value.text == text
