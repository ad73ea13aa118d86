import pytest

from penstock.broker.publishing.routing import resolve
from penstock.broker.topology import BindExchange, BindQueue, DeclareExchange, DeclareQueue
from penstock.broker.vhost import VirtualHost
from tests.broker.doubles import PlainProperties, make_vhost, routed

PLAIN = PlainProperties()


@pytest.fixture
def vhost() -> VirtualHost:
    vhost = make_vhost()
    for name in ("q1", "q2", "q3"):
        vhost.apply(DeclareQueue(name), 0)
    for name in ("e1", "e2", "e3"):
        vhost.apply(DeclareExchange(name, "direct"), 0)
    return vhost


def declare_with_alternate(vhost: VirtualHost, name: str, alternate: str) -> None:
    vhost.apply(DeclareExchange(name, "direct", arguments={"alternate-exchange": alternate}), 0)


def test_the_default_exchange_knows_queues_by_name(vhost: VirtualHost) -> None:
    assert routed(vhost, "", "q1", PLAIN) == ["q1"]
    assert routed(vhost, "", "nobody", PLAIN) == []


def test_a_queue_gets_a_message_once_and_queues_keep_their_order(vhost: VirtualHost) -> None:
    vhost.apply(DeclareExchange("t", "topic"), 0)
    vhost.apply(BindQueue("q2", "t", "a.#"), 0)
    vhost.apply(BindQueue("q1", "t", "a.#"), 0)
    vhost.apply(BindQueue("q2", "t", "#"), 0)
    assert sorted(routed(vhost, "t", "a.b", PLAIN)) == ["q1", "q2"]
    vhost.apply(BindQueue("q3", "e1", "k"), 0)
    vhost.apply(BindQueue("q1", "e1", "k"), 0)
    assert routed(vhost, "e1", "k", PLAIN) == ["q3", "q1"]


def test_bindings_are_followed_through_cycles(vhost: VirtualHost) -> None:
    for source, destination in (("e1", "e2"), ("e2", "e3"), ("e3", "e1"), ("e3", "e3")):
        vhost.apply(BindExchange(destination, source, "k"), 0)
    vhost.apply(BindQueue("q1", "e1", "k"), 0)
    vhost.apply(BindQueue("q1", "e3", "k"), 0)
    vhost.apply(BindQueue("q2", "e3", "k"), 0)
    assert routed(vhost, "e1", "k", PLAIN) == ["q1", "q2"]


def test_the_alternate_exchange_takes_what_matches_nothing(vhost: VirtualHost) -> None:
    declare_with_alternate(vhost, "first", "second")
    declare_with_alternate(vhost, "second", "third")
    vhost.apply(DeclareExchange("third", "fanout"), 0)
    vhost.apply(BindQueue("q1", "first", "k"), 0)
    vhost.apply(BindQueue("q2", "third"), 0)
    assert routed(vhost, "first", "k", PLAIN) == ["q1"]
    assert routed(vhost, "first", "other", PLAIN) == ["q2"]


def test_alternate_exchanges_may_form_a_cycle_or_be_missing(vhost: VirtualHost) -> None:
    declare_with_alternate(vhost, "first", "second")
    declare_with_alternate(vhost, "second", "first")
    declare_with_alternate(vhost, "lonely", "nobody")
    assert routed(vhost, "first", "k", PLAIN) == []
    assert routed(vhost, "lonely", "k", PLAIN) == []


def test_the_default_exchange_can_be_the_alternate(vhost: VirtualHost) -> None:
    declare_with_alternate(vhost, "first", "")
    assert routed(vhost, "first", "q2", PLAIN) == ["q2"]


def test_an_exchange_reached_by_a_binding_uses_its_own_alternate(vhost: VirtualHost) -> None:
    declare_with_alternate(vhost, "inner", "e3")
    vhost.apply(BindExchange("inner", "e1", "k"), 0)
    vhost.apply(BindQueue("q3", "e3", "k"), 0)
    assert routed(vhost, "e1", "k", PLAIN) == ["q3"]


def test_further_keys_route_too_and_are_not_cached(vhost: VirtualHost) -> None:
    copies = PlainProperties(extra_keys=["q2", "q1", "nobody"])
    route = resolve(vhost.routing, vhost.exchanges[""], "q1", copies)
    assert [queue.name for queue in route.queues] == ["q1", "q2"]
    assert not route.cacheable


def test_a_route_is_cacheable_when_keys_alone_decide(vhost: VirtualHost) -> None:
    vhost.apply(DeclareExchange("h", "headers"), 0)
    vhost.apply(BindExchange("h", "e1", "k"), 0)
    assert resolve(vhost.routing, vhost.exchanges[""], "q1", PLAIN).cacheable
    assert resolve(vhost.routing, vhost.exchanges["e1"], "other", PLAIN).cacheable
    assert not resolve(vhost.routing, vhost.exchanges["e1"], "k", PLAIN).cacheable


def test_a_route_carries_the_generation_it_was_made_in(vhost: VirtualHost) -> None:
    before = resolve(vhost.routing, vhost.exchanges["e1"], "k", PLAIN)
    assert before.generation == vhost.generation
    vhost.apply(BindQueue("q1", "e1", "k"), 0)
    assert before.generation != vhost.generation


def test_a_delayed_exchange_on_the_way_stops_what_must_wait(vhost: VirtualHost) -> None:
    vhost.apply(
        DeclareExchange("late", "x-delayed-message", arguments={"x-delayed-type": "direct"}), 0
    )
    vhost.apply(BindExchange("late", "e1", "k"), 0)
    vhost.apply(BindQueue("q1", "e1", "k"), 0)
    vhost.apply(BindQueue("q2", "late", "k"), 0)
    waiting = PlainProperties({"x-delay": 100})
    route = resolve(vhost.routing, vhost.exchanges["e1"], "k", waiting)
    assert [queue.name for queue in route.queues] == ["q1"]
    assert [exchange.name for exchange in route.delayed] == ["late"]
    assert not route.cacheable
    assert routed(vhost, "late", "k", waiting) == ["q2"]
    assert routed(vhost, "e1", "k", PLAIN) == ["q1", "q2"]
