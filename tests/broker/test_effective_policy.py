"""What a policy and an operator policy amount to."""

import pytest

from penstock.broker.effective_policy import OPERATOR_KEYS, merged
from penstock.broker.errors import NotFound, PreconditionFailed
from penstock.broker.topology import (
    ClearOperatorPolicy,
    ClearPolicy,
    DeclareQueue,
    SetOperatorPolicy,
    SetPolicy,
)
from penstock.broker.vhost import VirtualHost
from tests.broker.store.doubles import Broker


@pytest.fixture
def vhost() -> VirtualHost:
    return Broker().vhost


@pytest.mark.parametrize("key", OPERATOR_KEYS)
def test_the_smaller_number_is_effective(key: str) -> None:
    assert merged({key: 5}, {key: 3}) == {key: 3}
    assert merged({key: 3}, {key: 5}) == {key: 3}
    assert merged({}, {key: 5}) == {key: 5}
    assert merged({key: 5}, {}) == {key: 5}


def test_keys_that_only_one_has_are_kept() -> None:
    assert merged({"overflow": "reject-publish"}, {"max-length": 3}) == {
        "overflow": "reject-publish",
        "max-length": 3,
    }


def test_the_definitions_that_are_merged_stay_as_they_are() -> None:
    policy: dict[str, object] = {"max-length": 5}
    operator_policy: dict[str, object] = {"max-length": 3}
    merged(policy, operator_policy)
    assert (policy, operator_policy) == ({"max-length": 5}, {"max-length": 3})


def test_a_queue_works_by_the_smallest_of_argument_policy_and_operator_policy(
    vhost: VirtualHost,
) -> None:
    vhost.apply(DeclareQueue("q", arguments={"x-max-length": 8}), 0)
    queue = vhost.queue("q")
    vhost.apply(SetPolicy("p", "^q", {"max-length": 4, "overflow": "reject-publish"}), 0)
    assert queue.settings.max_length == 4
    vhost.apply(SetOperatorPolicy("o", "^q", {"max-length": 6, "message-ttl": 100}), 0)
    assert (queue.settings.max_length, queue.settings.message_ttl_ms) == (4, 100)
    vhost.apply(SetOperatorPolicy("o", "^q", {"max-length": 2}), 0)
    assert (queue.settings.max_length, queue.settings.message_ttl_ms) == (2, -1)
    assert vhost.effective.of_queue("q", queue.arguments, queue.queue_type) == {
        "max-length": 2,
        "overflow": "reject-publish",
    }
    vhost.apply(ClearPolicy("p"), 0)
    assert queue.settings.max_length == 2
    vhost.apply(ClearOperatorPolicy("o"), 0)
    assert queue.settings.max_length == 8


def test_a_queue_that_is_declared_later_gets_both(vhost: VirtualHost) -> None:
    vhost.apply(SetPolicy("p", "^q", {"expires": 50_000}), 0)
    vhost.apply(SetOperatorPolicy("o", "^q", {"max-length": 2}), 0)
    vhost.apply(DeclareQueue("q"), 0)
    settings = vhost.queue("q").settings
    assert (settings.max_length, settings.expires_ms) == (2, 50_000)


@pytest.mark.parametrize("key", ["overflow", "dead-letter-exchange", "alternate-exchange", "x"])
def test_an_operator_policy_sets_nothing_but_limits(vhost: VirtualHost, key: str) -> None:
    with pytest.raises(PreconditionFailed, match=f"{key} are not recognised policy settings"):
        vhost.apply(SetOperatorPolicy("o", "^q", {"max-length": 2, key: "drop-head"}), 0)
    assert vhost.operator_policies.listed() == []


def test_an_operator_policy_that_is_not_there_cannot_be_cleared(vhost: VirtualHost) -> None:
    vhost.apply(SetPolicy("p", "^q", {"max-length": 4}), 0)
    with pytest.raises(NotFound, match="no operator policy 'p' in vhost '/'"):
        vhost.apply(ClearOperatorPolicy("p"), 0)
