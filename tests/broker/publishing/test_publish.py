"""One publish: counted, delayed, intercepted, enqueued or refused, and its outcome."""

from __future__ import annotations

import pytest

from penstock.broker.message import Address, Message, Properties
from penstock.broker.publishing.publish import (
    Outcome,
    PublishInterceptor,
    RoutingMeter,
    publish,
    publish_plain,
)
from penstock.broker.publishing.target import Target, resolve_target
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.shared_services import RouteCount
from penstock.broker.topology import BindExchange, BindQueue, DeclareExchange, DeclareQueue
from penstock.broker.vhost import VirtualHost
from tests.broker.doubles import PlainProperties, make_vhost
from tests.broker.queues.doubles import ready_bodies
from tests.broker.store.doubles import message as message_of_amqp091

FULL: dict[str, object] = {"x-max-length": 0, "x-overflow": "reject-publish"}
DELAYED: dict[str, object] = {"x-delayed-type": "fanout"}


class Asked(PublishInterceptor):
    """Answers as it is told, and remembers which queues it was shown."""

    def __init__(self, answer: bool = True) -> None:
        self.answer = answer
        self.shown: list[list[str]] = []

    def admits(self, message: Message, queues: list[MessageQueue], now: int) -> bool:
        self.shown.append([queue.name for queue in queues])
        return self.answer


class Emptying(PublishInterceptor):
    def admits(self, message: Message, queues: list[MessageQueue], now: int) -> bool:
        queues.clear()
        return True


class Meter(RoutingMeter):
    def __init__(self) -> None:
        self.charged: list[int] = []

    def routed(self, target: Target) -> None:
        self.charged.append(len(target.queues))


class Scene:
    """A virtual host, and whatever is published in it. Held by one test."""

    def __init__(self) -> None:
        self.vhost: VirtualHost = make_vhost()
        for name in ("q1", "q2"):
            self.vhost.apply(DeclareQueue(name), 0)
        self.vhost.apply(DeclareQueue("full", arguments=FULL), 0)
        self.vhost.apply(DeclareExchange("f", "fanout"), 0)
        self.vhost.apply(DeclareExchange("late", "x-delayed-message", arguments=DELAYED), 0)
        self.interceptor: PublishInterceptor | None = None
        self.meter: Meter | None = None
        self.count = RouteCount(b"")

    def publish(
        self, exchange: str, key: str, body: bytes, properties: Properties | None = None
    ) -> Outcome:
        address = Address(exchange, key, b"")
        target = resolve_target(self.vhost.routing, self.vhost.exchanges[exchange], address)
        target.count = self.count
        sent = Message(address, properties or PlainProperties(), body, -1)
        return publish(self.vhost.routing, target, sent, self.interceptor, self.meter, 0)

    def bodies(self, queue: str) -> list[bytes]:
        return ready_bodies(self.vhost.queues[queue])

    def bind(self, exchange: str, *queues: str) -> None:
        for queue in queues:
            self.vhost.apply(BindQueue(queue, exchange), 0)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_message_is_enqueued_everywhere_and_counted_once(scene: Scene) -> None:
    scene.bind("f", "q1", "q2")
    assert scene.publish("f", "", b"m") is Outcome.ENQUEUED
    assert scene.bodies("q1") == scene.bodies("q2") == [b"m"]
    assert scene.count.count == 1


def test_a_message_that_no_queue_gets_is_unrouted_and_counted(scene: Scene) -> None:
    asked = Asked()
    scene.interceptor = asked
    assert scene.publish("f", "", b"m") is Outcome.UNROUTED
    assert scene.count.count == 1
    # There is nothing that could fail.
    assert asked.shown == []


def test_one_queue_that_refuses_is_enough_and_the_others_have_the_message(scene: Scene) -> None:
    scene.bind("f", "q1", "full", "q2")
    assert scene.publish("f", "", b"m") is Outcome.REFUSED
    assert scene.bodies("q1") == scene.bodies("q2") == [b"m"]
    assert scene.bodies("full") == []


def test_the_plain_way_says_and_does_the_same(scene: Scene) -> None:
    address = Address("", "full", b"")
    target = resolve_target(scene.vhost.routing, scene.vhost.exchanges[""], address)
    target.count = scene.count
    sent = Message(address, PlainProperties(), b"m", -1)
    assert not publish_plain(target, sent, 0)
    target.queues = [scene.vhost.queues["q1"]]
    assert publish_plain(target, sent, 0)
    assert scene.bodies("q1") == [b"m"]
    assert scene.count.count == 2


def test_an_interceptor_is_shown_the_queues_and_may_refuse(scene: Scene) -> None:
    scene.bind("f", "q1", "q2")
    asked = Asked(False)
    scene.interceptor = asked
    assert scene.publish("f", "", b"m") is Outcome.REFUSED
    assert asked.shown == [["q1", "q2"]]
    assert scene.bodies("q1") == []


def test_what_an_interceptor_does_to_the_queues_of_one_message_is_not_kept(scene: Scene) -> None:
    scene.bind("f", "q1")
    address = Address("f", "", b"")
    target = resolve_target(scene.vhost.routing, scene.vhost.exchanges["f"], address)
    for interceptor, body in ((Emptying(), b"lost"), (None, b"kept")):
        sent = Message(address, PlainProperties(), body, -1)
        outcome = publish(scene.vhost.routing, target, sent, interceptor, None, 0)
        assert outcome is Outcome.ENQUEUED
    assert scene.bodies("q1") == [b"kept"]


def test_a_message_that_an_interceptor_leaves_without_queues_does_not_wait_either(
    scene: Scene,
) -> None:
    scene.bind("f", "q1")
    scene.bind("late", "q2")
    scene.vhost.apply(BindExchange("late", "f"), 0)
    scene.interceptor = Emptying()
    scene.publish("f", "", b"m", PlainProperties({"x-delay": 5}))
    assert scene.bodies("q1") == []
    assert scene.vhost.delay_line.octets == 0


def test_a_message_waits_in_a_delayed_exchange_and_the_interceptor_is_asked(scene: Scene) -> None:
    scene.bind("late", "q1")
    asked = Asked()
    scene.interceptor = asked
    assert scene.publish("late", "", b"m", PlainProperties({"x-delay": 5})) is Outcome.DELAYED
    assert scene.bodies("q1") == []
    assert scene.vhost.delay_line.octets == 1
    assert asked.shown == [[]]
    assert scene.publish("late", "", b"now") is Outcome.ENQUEUED
    assert scene.bodies("q1") == [b"now"]


def test_who_searches_pays_for_it(scene: Scene) -> None:
    scene.bind("f", "q1", "q2")
    scene.meter = Meter()
    scene.publish("f", "", b"m")
    scene.publish("", "nobody", b"m")
    assert scene.meter.charged == [2, 0]


class Delays:
    """Two delayed exchanges behind one another, and the headers that clients of AMQP 0-9-1 send."""

    def __init__(self) -> None:
        self.vhost = make_vhost()
        arguments: dict[str, object] = {"x-delayed-type": "direct"}
        for name in ("first", "second"):
            self.vhost.apply(DeclareExchange(name, "x-delayed-message", arguments=arguments), 0)
        for name in ("q1", "q2"):
            self.vhost.apply(DeclareQueue(name), 0)

    def publish(self, exchange: str, headers: dict[str, object]) -> None:
        sent = message_of_amqp091(b"m", exchange=exchange, key="k", headers=headers)
        target = resolve_target(self.vhost.routing, self.vhost.exchanges[exchange], sent.address)
        publish(self.vhost.routing, target, sent, None, None, 0)

    def headers_in(self, queue: str) -> list[dict[str, object]]:
        return [entry.message.properties.headers() for entry in self.vhost.queues[queue].browse(9)]


def test_a_message_waits_once_however_many_delayed_exchanges_it_passes() -> None:
    delays = Delays()
    delays.vhost.apply(BindExchange("second", "first", "k"), 0)
    delays.vhost.apply(BindQueue("q1", "second", "k"), 0)
    delays.publish("first", {"x-delay": 5})
    delays.vhost.timers.fire_due(5)
    assert delays.headers_in("q1") == [{"x-delay": -5}]


@pytest.mark.parametrize("exchange", ["first", "amq.direct"], ids=["its own", "behind another"])
def test_blind_copies_of_a_delayed_message_are_routed_when_it_is_due_and_not_shown(
    exchange: str,
) -> None:
    delays = Delays()
    for key in ("k", "copy"):
        delays.vhost.apply(BindExchange("first", "amq.direct", key), 0)
    delays.vhost.apply(BindQueue("q1", "first", "k"), 0)
    delays.vhost.apply(BindQueue("q2", "first", "copy"), 0)
    delays.publish(exchange, {"x-delay": 5, "BCC": ["copy"]})
    delays.vhost.timers.fire_due(5)
    assert delays.headers_in("q1") == delays.headers_in("q2") == [{"x-delay": -5}]
