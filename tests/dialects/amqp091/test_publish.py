"""basic.publish, called as the wire calls it: what is kept between publishes, what takes the careful way, and
what each way tells the publisher.
"""

from __future__ import annotations

import pytest

from penstock.broker.errors import AccessRefused, NotFound, NotImplementedHere
from penstock.broker.message import Message
from penstock.broker.publishing.publish import PublishInterceptor
from penstock.broker.publishing.target import Target
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.shared_services import RouteCount
from penstock.broker.topology import BindQueue, DeclareExchange, DeclareQueue, DeleteQueue
from penstock.dialects.amqp091.publish import publish
from penstock.dialects.amqp091.staged import Transaction
from penstock.dialects.turn import ENQUEUED_PER_UNIT, FREE_QUEUES, ROUTE_UNITS
from penstock.formats.octets import Malformed
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.amqp091.content import BasicProperties, decode_properties, encode_header
from penstock.wire.amqp091.errors import ChannelFault
from penstock.wire.amqp091.reply_codes_generated import NO_ROUTE
from tests.broker.queues.doubles import ready_bodies
from tests.dialects.amqp091.doubles import OpenChannel, ToldQueue, frames_of
from tests.seeds.doubles import NOW

PSEUDO_QUEUE = "amq.rabbitmq.reply-to"


class Scene(OpenChannel):
    """A channel of a node with a queue `q`. Held by one test."""

    def __init__(self, *, confirms: bool = False, **arguments: object) -> None:
        super().__init__()
        self.vhost = self.channel.vhost
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        self.vhost.apply(DeclareQueue("q", arguments=named), NOW)
        if confirms:
            self.channel.start_confirms()

    def publish(
        self,
        body: bytes = b"abc",
        key: str = "q",
        exchange: str = "",
        *,
        mandatory: bool = False,
        immediate: bool = False,
        **fields: object,
    ) -> bytes:
        """Returns the payload of its method, under which its target is kept."""
        method = m.BasicPublish(exchange, key, mandatory, immediate).encode()
        header = encode_header(len(body), BasicProperties(**fields))  # type: ignore[arg-type]
        publish(self.channel, method, header, body, NOW)
        return method

    def target(self, method: bytes) -> Target:
        return self.channel.principal.targets[method]

    def told(self, *, accepts: bool = True) -> ToldQueue:
        """A queue of the test's in the place of `q`, on the short way."""
        target = self.target(self.publish(b"first"))
        found = ToldQueue(accepts=accepts)
        target.queues = [found.queue]
        self.answers()
        return found

    def bodies(self, queue: str = "q") -> list[bytes]:
        return ready_bodies(self.vhost.queues[queue])

    def answers(self) -> list[str]:
        """Confirms, as a tick ends."""
        if self.channel.confirms is not None:
            self.channel.container.answer_list.clear()
            self.channel.confirms.flush()
        found = []
        for kind, _, payload in frames_of(self.said()):
            if kind == 1:
                method = m.decode_method(payload)
                if isinstance(method, (m.BasicAck, m.BasicNack)):
                    more = " and before" if method.multiple else ""
                    found.append(f"{method.NAME} {method.delivery_tag}{more}")
                else:
                    found.append(method.NAME)
        return found


# The short way.


def test_a_message_reaches_every_queue_of_its_target_and_says_where_it_came_from() -> None:
    scene = Scene()
    for queue in ("one", "two"):
        scene.vhost.apply(DeclareQueue(queue), NOW)
        scene.vhost.apply(BindQueue(queue, "amq.fanout", ""), NOW)
    scene.publish(b"body", "k", "amq.fanout", priority=4)
    for queue in ("one", "two"):
        (entry,) = scene.vhost.queues[queue].browse(5)
        message = entry.message
        assert (message.address.exchange, message.address.routing_key) == ("amq.fanout", "k")
        assert (message.body, message.properties.priority) == (b"body", 4)
        assert message.origin == scene.channel.connection_number
        assert message.publisher is None
    assert scene.answers() == []


def test_what_one_publish_resolved_serves_the_next() -> None:
    scene = Scene()
    method = scene.publish(b"abc")
    target = scene.target(method)
    scene.publish(b"def")
    assert scene.target(method) is target
    first, second = (entry.message for entry in scene.vhost.queues["q"].browse(5))
    assert first.address is second.address
    assert first.properties is second.properties


def test_a_target_is_found_anew_when_the_topology_has_changed() -> None:
    scene = Scene()
    scene.publish(b"1", "k", "amq.direct")
    method = scene.publish(b"2", "k", "amq.direct")
    stale = scene.target(method)
    scene.vhost.apply(BindQueue("q", "amq.direct", "k"), NOW)
    scene.publish(b"3", "k", "amq.direct")
    assert scene.target(method) is not stale
    assert scene.bodies() == [b"3"]


def test_routing_keys_that_lead_to_the_same_queues_share_their_list_until_the_topology_changes() -> (
    None
):
    scene = Scene()
    for queue in ("q", "r"):
        scene.vhost.apply(DeclareQueue(queue), NOW)
        scene.vhost.apply(BindQueue(queue, "amq.topic", "a.#"), NOW)
    scene.vhost.apply(BindQueue("q", "amq.topic", "b.#"), NOW)
    both = scene.target(scene.publish(b"1", "a.1", "amq.topic")).queues
    assert [queue.name for queue in both] == ["q", "r"]
    assert scene.target(scene.publish(b"2", "a.2", "amq.topic")).queues is both
    only = scene.target(scene.publish(b"3", "b.1", "amq.topic")).queues
    assert [queue.name for queue in only] == ["q"]
    scene.vhost.apply(DeleteQueue("r"), NOW)
    scene.vhost.apply(DeclareQueue("r"), NOW)
    scene.vhost.apply(BindQueue("r", "amq.topic", "a.#"), NOW)
    renewed = scene.target(scene.publish(b"4", "a.2", "amq.topic")).queues
    assert renewed is not both
    assert scene.bodies("r") == [b"4"]


@pytest.mark.parametrize("confirms", [False, True])
def test_publishes_are_counted_where_somebody_counts(confirms: bool) -> None:
    scene = Scene(confirms=confirms)
    method = scene.publish()
    count = RouteCount(b"")
    scene.target(method).count = count
    scene.publish()
    scene.publish()
    assert count.count == 2


@pytest.mark.parametrize(
    ("queues", "units"), [(1, 0), (FREE_QUEUES, 0), (3 * FREE_QUEUES, 3 * FREE_QUEUES // 8)]
)
def test_many_queues_are_charged_to_the_connections_turn(queues: int, units: int) -> None:
    assert ENQUEUED_PER_UNIT == 8
    scene = Scene()
    for number in range(queues):
        scene.vhost.apply(DeclareQueue(f"q{number}"), NOW)
        scene.vhost.apply(BindQueue(f"q{number}", "amq.fanout", ""), NOW)
    turns = scene.channel.container.turns
    spent = turns.spent
    scene.publish(b"1", "k", "amq.fanout")
    assert turns.spent > spent, "finding them costs in any case"
    spent = turns.spent
    scene.publish(b"2", "k", "amq.fanout")
    assert turns.spent - spent == units
    assert len(scene.bodies(f"q{queues - 1}")) == 2


# What is not let in.


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"immediate": True}, NotImplementedHere, "immediate=true"),
        ({"exchange": "none"}, NotFound, "no exchange 'none' in vhost '/'"),
        ({"exchange": "inside"}, AccessRefused, "internal exchange 'inside' in vhost '/'"),
    ],
)
def test_a_publish_that_is_refused_keeps_no_target(
    options: dict[str, object], error: type[Exception], text: str
) -> None:
    scene = Scene()
    scene.vhost.apply(DeclareExchange("inside", "fanout", internal=True), NOW)
    for _ in range(2):
        with pytest.raises(error, match=text):
            scene.publish(**options)  # type: ignore[arg-type]
    assert scene.channel.principal.targets == {}


def test_a_user_publishes_only_where_it_may_write() -> None:
    scene = Scene()
    scene.channel.principal.access.grant("", "amq.fanout", "")
    with pytest.raises(AccessRefused):
        scene.publish()
    assert scene.bodies() == []
    scene.publish(b"x", "q", "amq.fanout")


def test_a_header_that_is_malformed_is_refused_and_not_kept() -> None:
    scene = Scene(confirms=True)
    method = m.BasicPublish("", "q").encode()
    header = encode_header(1, BasicProperties(content_type="\udca1"))
    for _ in range(2):
        with pytest.raises(Malformed, match="not UTF-8"):
            publish(scene.channel, method, header, b"x", NOW)
    assert scene.bodies() == []
    assert header not in scene.channel.dialect.properties
    scene.publish()
    assert scene.answers() == ["basic.ack 1"], "what was refused has no number"


def test_a_header_that_names_its_message_is_not_kept_for_others() -> None:
    scene = Scene()
    for number in range(3):
        scene.publish(message_id=f"id {number}")
        scene.publish(correlation_id=f"id {number}")
    assert scene.channel.dialect.properties == {}
    scene.publish(content_type="text/plain")
    assert len(scene.channel.dialect.properties) == 1


# Confirms.


def test_publishes_are_confirmed_in_order_and_leave_nobody_waiting() -> None:
    scene = Scene(confirms=True)
    queue = scene.told()
    scene.publish(b"1")
    scene.publish(b"2")
    assert [message.sequence for message in queue.got] == [2, 3]
    assert [message.publisher for message in queue.got] == [None, None]
    assert scene.answers() == ["basic.ack 3 and before"]


@pytest.mark.parametrize("careful", [False, True])
def test_a_message_that_is_held_keeps_its_publisher_and_is_confirmed_later(careful: bool) -> None:
    scene = Scene(confirms=True)
    queue = scene.told()
    scene.channel.is_plain = not careful
    queue.holds = True
    scene.publish()
    (message,) = queue.got
    assert message.publisher is scene.channel.confirms
    assert scene.answers() == []
    message.release()
    assert scene.answers() == ["basic.ack 2"]


@pytest.mark.parametrize("careful", [False, True])
def test_a_queue_that_refuses_makes_the_confirm_negative_whatever_others_say(careful: bool) -> None:
    scene = Scene(confirms=True)
    refusing = scene.told(accepts=False)
    accepting = ToldQueue()
    target = scene.target(m.BasicPublish("", "q").encode())
    target.queues = [refusing.queue, accepting.queue]
    scene.channel.is_plain = not careful
    scene.publish()
    scene.publish()
    assert (len(refusing.got), len(accepting.got)) == (0, 2)
    assert scene.answers() == ["basic.nack 2", "basic.nack 3"]


@pytest.mark.parametrize("careful", [False, True])
def test_what_was_written_down_is_confirmed_when_the_journal_is_durable(careful: bool) -> None:
    scene = Scene(confirms=True)
    queue = scene.told()
    scene.channel.is_plain = not careful
    scene.publish()
    queue.journals = True
    scene.publish()
    durability = scene.channel.container.durability
    durability.written = 50
    assert scene.answers() == ["basic.ack 2"]
    durability.durable = 50
    assert scene.answers() == ["basic.ack 3"]


def test_without_confirms_nothing_is_said_and_refusals_are_silent() -> None:
    scene = Scene()
    queue = scene.told()
    queue.journals = True
    scene.publish()
    (message,) = queue.got
    assert (message.publisher, message.sequence) == (None, 0)
    scene.told(accepts=False)
    scene.publish()
    assert scene.answers() == []


# The careful way.


@pytest.mark.parametrize("confirms", [False, True])
@pytest.mark.parametrize(("mandatory", "key"), [(True, "none"), (False, "none"), (True, "q")])
def test_a_mandatory_message_that_reaches_no_queue_comes_back_before_its_confirm(
    confirms: bool, mandatory: bool, key: str
) -> None:
    scene = Scene(confirms=confirms)
    scene.publish(b"back", key, mandatory=mandatory, content_type="t")
    returned = mandatory and key == "none"
    pending = frames_of(b"".join(scene.outgoing.pieces))
    wanted = ["basic.return"] * returned + ["basic.ack 1"] * confirms
    assert scene.answers() == wanted
    if returned:
        method = m.decode_method(pending[0][2])
        assert isinstance(method, m.BasicReturn)
        assert (method.reply_code, method.exchange, method.routing_key) == (NO_ROUTE, "", key)
        assert method.reply_text == "NO_ROUTE"
        assert decode_properties(pending[1][2]).content_type == "t"
        assert pending[2][2] == b"back"


def test_a_mandatory_message_takes_the_short_way_where_there_is_a_queue() -> None:
    scene = Scene()
    method = scene.publish(mandatory=True)
    assert scene.target(method).is_plain
    assert scene.target(method).mandatory
    assert not scene.target(scene.publish(key="none", mandatory=True)).is_plain
    # What is dropped is counted on the long way.
    assert not scene.target(scene.publish(key="none")).is_plain


def test_a_message_speaks_for_its_own_user_only() -> None:
    scene = Scene(confirms=True)
    with pytest.raises(ChannelFault, match=r"user_id property set to 'other' but .* was 'guest'"):
        scene.publish(user_id="other")
    scene.publish(user_id="guest")
    assert scene.bodies() == [b"abc"]
    assert scene.answers() == ["basic.ack 1"]


def test_copies_go_to_their_keys_and_blind_ones_are_not_shown() -> None:
    scene = Scene()
    for queue in ("open", "blind"):
        scene.vhost.apply(DeclareQueue(queue), NOW)
    turns = scene.channel.container.turns
    scene.publish()
    spent = turns.spent
    scene.publish(b"copied", headers={"CC": ["open"], "BCC": ["blind"]})
    assert turns.spent - spent >= ROUTE_UNITS, "it is routed for itself alone"
    for queue in ("open", "blind"):
        (entry,) = scene.vhost.queues[queue].browse(2)
        assert entry.message.properties.headers() == {"CC": ["open"]}
    assert scene.bodies() == [b"abc", b"copied"]


def test_a_transaction_collects_publishes_and_they_are_not_confirmed() -> None:
    scene = Scene()
    scene.channel.transaction = Transaction()
    scene.channel.choose_publish_path()
    method = scene.publish(b"later")
    assert scene.bodies() == []
    (staged,) = scene.channel.transaction.publishes
    assert staged.message.body == b"later"
    assert staged.target is scene.target(method)


class Answering(PublishInterceptor):
    """Refuses or lets pass, and remembers what it was asked."""

    def __init__(self, *answers: bool) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[bytes, list[str]]] = []

    def admits(self, message: Message, queues: list[MessageQueue], now: int) -> bool:
        assert now == NOW
        self.asked.append((message.body, [queue.name for queue in queues]))
        return self.answers.pop(0)


def test_an_interceptor_is_asked_and_its_no_is_a_negative_confirm() -> None:
    scene = Scene(confirms=True)
    interceptor = Answering(True, False, True)
    scene.house.node.intercept_publishes(interceptor)
    for body in (b"1", b"2", b"3"):
        scene.publish(body)
    assert interceptor.asked == [(body, ["q"]) for body in (b"1", b"2", b"3")]
    assert scene.bodies() == [b"1", b"3"]
    assert scene.answers() == ["basic.ack 1", "basic.nack 2", "basic.ack 3"]


# Direct replies.


def test_a_request_names_the_channel_that_waits_for_the_reply() -> None:
    scene = Scene()
    with pytest.raises(ChannelFault, match="fast reply consumer does not exist"):
        scene.publish(reply_to=PSEUDO_QUEUE)
    scene.peer.call(m.BasicConsume(PSEUDO_QUEUE, "replies", no_ack=True))
    scene.publish(b"question", reply_to=PSEUDO_QUEUE)
    scene.publish(b"other", reply_to="elsewhere")
    asked, other = (entry.message.properties for entry in scene.vhost.queues["q"].browse(5))
    waiting = scene.channel.reply_consumer
    assert waiting is not None
    assert asked.text_of("reply_to") == waiting.address
    assert other.text_of("reply_to") == "elsewhere"


def test_a_reply_goes_to_the_channel_and_is_counted_confirmed_and_never_kept_plain() -> None:
    scene = Scene(confirms=True)
    scene.peer.call(m.BasicConsume(PSEUDO_QUEUE, "replies", no_ack=True))
    waiting = scene.channel.reply_consumer
    assert waiting is not None
    scene.said()
    method = scene.publish(b"answer", waiting.address)
    assert not scene.target(method).is_plain
    assert scene.answers() == ["basic.deliver", "basic.ack 1"]
    count = RouteCount(b"")
    scene.target(method).count = count
    scene.publish(b"again", waiting.address)
    assert count.count == 1
    assert scene.answers() == ["basic.deliver", "basic.ack 2"]


def test_a_reply_to_nobody_is_dropped_or_comes_back() -> None:
    scene = Scene(confirms=True)
    scene.publish(b"answer", PSEUDO_QUEUE + ".nobody")
    assert scene.answers() == ["basic.ack 1"]
    scene.publish(b"answer", PSEUDO_QUEUE + ".nobody", mandatory=True)
    assert scene.answers() == ["basic.return", "basic.ack 2"]
