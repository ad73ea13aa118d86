"""Targets: resolved once, valid for one generation, and one of its own for a message that needs it."""

import pytest

from penstock.broker.message import Address
from penstock.broker.publishing.target import Target, resolve_target, target_of
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.shared_services import QueueWatcher, RouteCount
from penstock.broker.topology import (
    BindExchange,
    BindQueue,
    DeclareExchange,
    DeclareQueue,
    DeleteQueue,
)
from penstock.broker.vhost import VirtualHost
from tests.broker.doubles import PlainProperties, make_vhost

PLAIN = PlainProperties()


@pytest.fixture
def vhost() -> VirtualHost:
    vhost = make_vhost()
    for name in ("q1", "q2"):
        vhost.apply(DeclareQueue(name), 0)
    vhost.apply(DeclareExchange("d", "direct"), 0)
    vhost.apply(DeclareExchange("h", "headers"), 0)
    vhost.apply(
        DeclareExchange("late", "x-delayed-message", arguments={"x-delayed-type": "fanout"}), 0
    )
    vhost.apply(BindQueue("q1", "d", "k"), 0)
    vhost.apply(BindQueue("q1", "h", arguments={"to": "q1"}), 0)
    vhost.apply(BindQueue("q2", "h", arguments={"to": "q2"}), 0)
    vhost.apply(BindQueue("q2", "late"), 0)
    return vhost


def resolved(vhost: VirtualHost, exchange: str, key: str) -> Target:
    return resolve_target(vhost.routing, vhost.exchanges.get(exchange), Address(exchange, key, b""))


def names(target: Target) -> list[str]:
    return [queue.name for queue in target.queues]


def test_a_target_by_key_alone_serves_every_message(vhost: VirtualHost) -> None:
    target = resolved(vhost, "d", "k")
    assert target.is_fixed
    assert target.reaches_any
    assert names(target) == ["q1"]
    assert target_of(vhost.routing, target, PLAIN) is target
    assert target_of(vhost.routing, target, PlainProperties({"to": "q2"})) is target


def test_a_target_that_reaches_nothing_is_fixed_until_something_is_bound(
    vhost: VirtualHost,
) -> None:
    target = resolved(vhost, "d", "other")
    assert target.is_fixed
    assert not target.reaches_any
    vhost.apply(BindQueue("q2", "d", "other"), 0)
    assert names(target_of(vhost.routing, target, PLAIN)) == ["q2"]


def test_a_stale_target_is_not_used(vhost: VirtualHost) -> None:
    target = resolved(vhost, "d", "k")
    vhost.apply(DeleteQueue("q1"), 0)
    assert target.generation != vhost.generation
    assert target.is_outdated()
    found = target_of(vhost.routing, target, PLAIN)
    assert found is not target
    assert not found.reaches_any
    assert found.generation == vhost.generation


def test_headers_decide_for_each_message_where_they_decide(vhost: VirtualHost) -> None:
    target = resolved(vhost, "h", "k")
    assert not target.is_fixed
    assert target.queues == []
    assert names(target_of(vhost.routing, target, PlainProperties({"to": "q2"}))) == ["q2"]
    assert names(target_of(vhost.routing, target, PlainProperties({"to": "q1"}))) == ["q1"]
    assert not target_of(vhost.routing, target, PLAIN).reaches_any
    assert target.queues == []


def test_headers_decide_also_behind_an_exchange_that_goes_by_the_key(vhost: VirtualHost) -> None:
    vhost.apply(BindExchange("h", "d", "k"), 0)
    target = resolved(vhost, "d", "k")
    assert not target.is_fixed
    assert names(target_of(vhost.routing, target, PlainProperties({"to": "q2"}))) == ["q1", "q2"]


def test_a_message_with_further_keys_has_a_target_of_its_own(vhost: VirtualHost) -> None:
    target = resolved(vhost, "", "q1")
    found = target_of(vhost.routing, target, PlainProperties(extra_keys=["q2"]))
    assert names(found) == ["q1", "q2"]
    assert not found.is_fixed
    assert names(target) == ["q1"]


def test_what_has_to_wait_reaches_its_exchange_and_no_queue(vhost: VirtualHost) -> None:
    target = resolved(vhost, "late", "k")
    waiting = target_of(vhost.routing, target, PlainProperties({"x-delay": 5}))
    assert [exchange.name for exchange in waiting.delayed] == ["late"]
    assert waiting.queues == []
    assert waiting.reaches_any
    assert names(target_of(vhost.routing, target, PLAIN)) == ["q2"]


def test_an_exchange_that_does_not_exist_reaches_nothing(vhost: VirtualHost) -> None:
    target = resolved(vhost, "nobody", "k")
    assert not target.reaches_any
    assert not target_of(vhost.routing, target, PlainProperties(extra_keys=["q1"])).reaches_any


class Counting(QueueWatcher):
    """Counts by exchange and key; another count after every change."""

    def __init__(self) -> None:
        self.given: list[RouteCount] = []

    def watch(self, queue: MessageQueue) -> None: ...

    def forget(self, queue: MessageQueue) -> None: ...

    def route(self, vhost: str, exchange: str, key: str) -> RouteCount:
        self.given.append(RouteCount(f"{vhost} {exchange} {key}".encode()))
        return self.given[-1]


def test_a_target_has_its_count_and_shares_it_with_those_of_its_messages(
    vhost: VirtualHost,
) -> None:
    watcher = Counting()
    vhost.shared.watcher = watcher
    target = resolved(vhost, "h", "k")
    own = target_of(vhost.routing, target, PlainProperties({"to": "q1"}))
    assert own.count is target.count
    assert [count.text for count in watcher.given] == [b"/ h k"]
    target.counted(3)
    own.counted(1)
    assert watcher.given[0].count == 4
    vhost.apply(BindQueue("q2", "d", "k"), 0)
    assert target_of(vhost.routing, target, PLAIN).count is watcher.given[1]


def test_a_divided_target_says_which_queues_refuse_and_goes_to_them_first(
    vhost: VirtualHost,
) -> None:
    limits: dict[str, object] = {"x-max-length": 1, "x-overflow": "reject-publish"}
    vhost.apply(DeclareQueue("full", arguments=limits), 0)
    vhost.apply(BindQueue("full", "d", "k"), 0)
    target = resolved(vhost, "d", "k")
    target.divide()
    assert names(target) == ["full", "q1"]
    assert [queue.name for queue in target.refusing] == ["full"]
    assert target.streams == []
