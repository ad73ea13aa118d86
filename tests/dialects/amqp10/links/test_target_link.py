"""Incoming links: what becomes of deliveries, and how much may be sent."""

from __future__ import annotations

import pytest

from penstock.broker.message import Message
from penstock.broker.publishing.publish import PublishInterceptor
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.topology import (
    BindQueue,
    ClearTopicPermissions,
    DeleteQueue,
    SetTopicPermissions,
)
from penstock.dialects.amqp10.links.target_outcomes import CREDIT, CREDIT_WHEN_REFUSED
from penstock.storage.memory_disk import MemoryDisk
from penstock.wire.amqp10.performatives_generated import (
    AmqpValue,
    Data,
    DeliveryAnnotations,
    Footer,
    Header,
    MessageAnnotations,
    Properties,
    Rejected,
    Transfer,
)
from penstock.wire.amqp10.receiving import ReceivingLink
from penstock.wire.amqp10.sending import SentDelivery
from penstock.wire.amqp10.values import Symbol
from tests.dialects.amqp10.doubles import House, Peer, Producer, value_body
from tests.dialects.protocols import amqp10_of


@pytest.fixture
def house() -> House:
    return House()


def bodies(queue: MessageQueue) -> list[bytes]:
    return [entry.message.body for entry in queue.browse(1000)]


def producer(house: House, address: str | None = "/queues/q") -> Producer:
    peer = house.connect()
    return peer.sender(peer.begin(), address)


def test_deliveries_are_enqueued_in_order_and_accepted(house: House) -> None:
    queue = house.declare("q")
    sender = producer(house)
    sender.send(b"one", b"two", b"three")
    assert bodies(queue) == [Data(body).encode() for body in (b"one", b"two", b"three")]
    assert sender.outcomes == ["accepted"] * 3
    assert len(sender.listener.settled) == 3


def test_deliveries_of_one_tick_are_accepted_with_one_disposition(house: House) -> None:
    house.declare("q")
    sender = producer(house)
    sender.send(b"first")
    sender.put(*[b"%d" % number for number in range(100)])
    sender.peer.connection.received(sender.peer.said(), house.now)
    house.node.flush(house.now)
    assert sender.peer.transport.written.count(b"\x00\x53\x15") == 1
    house.settle()
    assert sender.outcomes == ["accepted"] * 101


def test_links_of_one_session_are_answered_each_for_itself(house: House) -> None:
    house.declare("q")
    peer = house.connect()
    session = peer.begin()
    good = peer.sender(session, "/queues/q", "good")
    lost = peer.sender(session, "/exchanges/amq.direct/nobody", "lost")
    for number in range(3):
        good.put(b"%d" % number)
        lost.put(b"%d" % number)
    house.settle()
    assert good.outcomes == ["accepted"] * 3
    assert lost.outcomes == ["released"] * 3


def test_a_settled_delivery_is_enqueued_and_not_answered(house: House) -> None:
    queue = house.declare("q")
    sender = producer(house)
    sender.send(b"one", b"two", settled=True)
    assert queue.message_count == 2
    assert sender.outcomes == []


def test_a_message_that_reaches_no_queue_is_released(house: House) -> None:
    sender = producer(house, "/exchanges/amq.topic/nobody")
    sender.send(b"lost")
    assert sender.outcomes == ["released"]


def test_a_queue_that_is_full_rejects_and_lowers_the_credit(house: House) -> None:
    queue = house.declare("q", x_max_length=1, x_overflow="reject-publish")
    sender = producer(house)
    sender.send(b"fits")
    assert sender.link.credit > CREDIT // 2
    sender.send(b"does not")
    assert sender.outcomes == ["accepted", "rejected"]
    assert sender.link.credit == CREDIT_WHEN_REFUSED
    queue.purge(house.now)
    sender.send(b"fits again")
    assert sender.outcomes[-1] == "accepted"
    assert sender.link.credit == CREDIT


class Refusing(PublishInterceptor):
    def admits(self, message: Message, queues: list[MessageQueue], now: int) -> bool:
        return False


def test_what_an_interceptor_refuses_is_rejected(house: House) -> None:
    house.declare("q")
    sender = producer(house)
    sender.send(b"before")
    house.node.intercept_publishes(Refusing())
    sender.send(b"meanwhile")
    house.node.intercept_publishes(None)
    sender.send(b"after")
    assert sender.outcomes == ["accepted", "rejected", "accepted"]


class Holding(PublishInterceptor):
    def __init__(self) -> None:
        self.held: list[Message] = []

    def admits(self, message: Message, queues: list[MessageQueue], now: int) -> bool:
        if not self.held:
            message.hold()
            self.held.append(message)
        return True


def test_a_held_message_keeps_back_its_answer_and_all_later_ones(house: House) -> None:
    house.declare("q")
    sender = producer(house)
    holding = Holding()
    house.node.intercept_publishes(holding)
    sender.send(b"held", b"next")
    assert sender.outcomes == []
    holding.held[0].release()
    house.settle()
    assert sender.outcomes == ["accepted", "accepted"]


def test_a_held_message_that_is_given_up_is_rejected(house: House) -> None:
    house.declare("q")
    sender = producer(house)
    holding = Holding()
    house.node.intercept_publishes(holding)
    sender.send(b"held", b"next")
    holding.held[0].refuse()
    holding.held[0].release()
    house.settle()
    assert sender.outcomes == ["rejected", "accepted"]


def test_a_durable_message_is_accepted_when_it_is_safe() -> None:
    disk = MemoryDisk(at_once=False)
    house = House(disk)
    disk.answer_flushes(house.now)
    house.declare("q")
    house.settle()
    disk.answer_flushes(house.now)
    sender = producer(house)
    head = Header(durable=True).encode()
    sender.send(b"first", b"second", head=head)
    assert sender.outcomes == []
    sender.send(b"third", head=head)
    assert sender.outcomes == []
    disk.answer_flushes(house.now)
    house.settle()
    disk.answer_flushes(house.now)
    house.settle()
    assert sender.outcomes == ["accepted"] * 3


def test_the_subject_is_the_routing_key_where_the_address_has_none(house: House) -> None:
    queue = house.declare("q")
    house.node.apply_to_vhost("/", BindQueue("q", "amq.topic", "a.*"), house.now)
    sender = producer(house, "/exchanges/amq.topic")
    sender.send(b"yes", head=Properties(subject="a.b").encode())
    sender.send(b"no", head=Properties(subject="b.b").encode())
    sender.send(b"yes", head=Properties(subject="a.c").encode())
    assert sender.outcomes == ["accepted", "released", "accepted"]
    keys = [entry.message.address.routing_key for entry in queue.browse(10)]
    assert keys == ["a.b", "a.c"]


def test_a_topic_permission_is_asked_for_each_routing_key(house: House) -> None:
    queue = house.declare("q")
    house.node.apply_to_vhost("/", BindQueue("q", "amq.topic", "#"), house.now)
    sender = producer(house, None)
    refused = Properties(to="/exchanges/amq.topic/b.a").encode()
    sender.send(b"1", head=refused)
    house.node.apply(SetTopicPermissions("guest", "/", "amq.topic", "^a", ""), house.now)
    sender.send(b"2", head=refused)
    sender.send(b"3", head=Properties(to="/exchanges/amq.topic/a.b").encode())
    sender.send(b"4", head=refused)
    house.node.apply(ClearTopicPermissions("guest", "/"), house.now)
    sender.send(b"5", head=refused)
    assert sender.outcomes == ["accepted", "rejected", "accepted", "rejected", "accepted"]
    assert queue.message_count == 3
    outcome = sorted(sender.listener.outcomes.items())[1][1]
    assert isinstance(outcome, Rejected)
    assert outcome.error is not None
    assert outcome.error.condition == "amqp:unauthorized-access"
    assert outcome.error.description == (
        "access to topic 'b.a' in exchange 'amq.topic' in vhost '/' refused for user 'guest'"
    )


def test_a_topic_permission_is_asked_for_the_keys_of_copies(house: House) -> None:
    queue = house.declare("q")
    house.node.apply_to_vhost("/", BindQueue("q", "amq.topic", "#"), house.now)
    house.node.apply(SetTopicPermissions("guest", "/", "amq.topic", "^a", ""), house.now)
    sender = producer(house, None)
    to = Properties(to="/exchanges/amq.topic/a").encode()
    for keys in (["a.b"], ["a.b", "b.a"]):
        copies = MessageAnnotations({Symbol("x-cc"): keys}).encode()
        sender.send(b"1", head=copies + to)
    assert sender.outcomes == ["accepted", "rejected"]
    assert queue.message_count == 1


def test_a_link_to_a_topic_exchange_ends_with_a_subject_that_is_not_permitted(
    house: House,
) -> None:
    house.node.apply(SetTopicPermissions("guest", "/", "amq.topic", "^a", ""), house.now)
    sender = producer(house, "/exchanges/amq.topic")
    sender.send(b"1", head=Properties(subject="a").encode())
    sender.send(b"2", head=Properties(subject="b").encode())
    assert [fault[1] for fault in sender.peer.link_faults] == ["amqp:unauthorized-access"]


def test_an_anonymous_terminus_goes_by_to(house: House) -> None:
    house.declare("q")
    house.declare("r")
    sender = producer(house, None)
    sender.send(b"1", head=Properties(to="/queues/q").encode())
    sender.send(b"2", head=Properties(to="/queues/r").encode())
    sender.send(b"3", head=Properties(to="/exchanges/none/x").encode())
    sender.send(b"4")
    sender.send(b"5", head=Properties(to="/queues/q").encode())
    assert sender.outcomes == ["accepted", "accepted", "rejected", "rejected", "accepted"]
    outcome = sorted(sender.listener.outcomes.items())[2][1]
    assert isinstance(outcome, Rejected)
    assert outcome.error is not None
    assert outcome.error.condition == "amqp:not-found"
    assert house.queue("q").message_count == 2
    assert house.queue("r").message_count == 1


def test_a_settled_message_that_leads_nowhere_detaches_the_anonymous_link(house: House) -> None:
    sender = producer(house, None)
    sender.send(b"x", settled=True)
    assert sender.peer.link_faults == [("sender", "amqp:precondition-failed", True)]


def test_a_queue_that_is_deleted_and_made_again_is_found(house: House) -> None:
    house.declare("q")
    sender = producer(house)
    sender.send(b"one")
    house.node.apply_to_vhost("/", DeleteQueue("q"), house.now)
    sender.send(b"two")
    house.declare("q")
    sender.send(b"three")
    assert sender.outcomes == ["accepted", "released", "accepted"]
    assert bodies(house.queue("q")) == [Data(b"three").encode()]


def test_a_target_that_does_not_exist_refuses_the_link(house: House) -> None:
    sender = producer(house, "/exchanges/nothing/key")
    assert sender.peer.link_faults == [("sender", "amqp:not-found", True)]
    assert sender.peer.attached[sender.link].target is None


def test_a_foreign_user_id_detaches_the_link(house: House) -> None:
    queue = house.declare("q")
    sender = producer(house)
    sender.send(b"mine", head=Properties(user_id=b"guest").encode())
    sender.send(b"yours", head=Properties(user_id=b"somebody").encode())
    assert sender.peer.link_faults == [("sender", "amqp:unauthorized-access", True)]
    assert queue.message_count == 1
    assert sender.outcomes == ["accepted"]


@pytest.mark.parametrize(
    "payload", [b"hello", b"\x00\x53\x75", b"\x00\x53\x75\xa0\x05abc", b"\x00\x53\x70\xc0\x02\x01"]
)
def test_a_message_that_is_none_detaches_the_link(house: House, payload: bytes) -> None:
    queue = house.declare("q")
    sender = producer(house)
    sender.send(b"good")
    sender.link.send(SentDelivery(), b"", payload)
    house.settle()
    assert sender.peer.link_faults == [("sender", "amqp:decode-error", True)]
    assert sender.outcomes == ["accepted"]
    assert queue.message_count == 1


def test_a_message_without_a_body_is_accepted_with_null_for_one(house: House) -> None:
    queue = house.declare("q")
    sender = producer(house)
    head = Properties(subject="s").encode()
    null = AmqpValue(None).encode()
    footer = Footer({Symbol("f"): 1}).encode()
    # Between others with the same head, which take the short way.
    for payload in (Data(b"1").encode(), b"", Data(b"2").encode(), footer, b"", null):
        sender.link.send(SentDelivery(), head, payload)
        house.settle()
    assert sender.outcomes == ["accepted"] * 6
    bodies = [entry.message.body for entry in queue.browse(10)]
    expected = [Data(b"1").encode(), null, Data(b"2").encode(), null + footer, null, null]
    assert bodies == expected
    assert {entry.message.properties.encoded() for entry in queue.browse(10)} == {head}


def test_delivery_annotations_go_no_further(house: House) -> None:
    queue = house.declare("q")
    sender = producer(house)
    head = DeliveryAnnotations({"x-opt-hop": 1}).encode() + Properties(subject="s").encode()
    sender.send(b"one", b"two", head=head)
    assert [entry.message.properties.encoded() for entry in queue.browse(10)] == [
        Properties(subject="s").encode()
    ] * 2


def test_the_head_may_change_with_every_message(house: House) -> None:
    queue = house.declare("q")
    sender = producer(house)
    for number in range(4):
        sender.put(b"%d" % number, head=Properties(subject=f"{number // 2}").encode())
    sender.link.send(SentDelivery(), Properties(subject="1").encode(), value_body("a value"))
    house.settle()
    found = [(entry.message.properties.encoded(), entry.message.body) for entry in queue.browse(10)]
    heads = [Properties(subject=subject).encode() for subject in "00111"]
    expected = [Data(b"%d" % number).encode() for number in range(4)] + [value_body("a value")]
    assert found == list(zip(heads, expected, strict=True))


def test_a_delivery_of_many_frames_arrives_whole(house: House) -> None:
    queue = house.declare("q")
    sender = producer(house)
    large = bytes(range(256)) * 2000
    sender.send(large, b"small")
    assert bodies(queue) == [Data(large).encode(), Data(b"small").encode()]
    assert sender.outcomes == ["accepted", "accepted"]


def test_rcv_settle_mode_second_says_the_outcome_and_waits(house: House) -> None:
    queue = house.declare("q")
    peer = house.connect()
    sender = peer.sender(peer.begin(), "/queues/q", rcv_settle_mode=1)
    sender.send(b"one", b"two")
    assert sender.outcomes == ["accepted", "accepted"]
    assert sender.listener.settled == set()
    (link,) = _node_links(peer)
    assert len(link.unsettled) == 2
    sender.session.settle_sent(0, 1, None)
    house.settle()
    assert link.unsettled == {}
    assert queue.message_count == 2


def test_a_transfer_may_ask_to_be_settled_first_on_such_a_link(house: House) -> None:
    house.declare("q")
    peer = house.connect()
    sender = peer.sender(peer.begin(), "/queues/q", rcv_settle_mode=1)
    sent = SentDelivery()
    sent.tag = b"first"
    transfer = Transfer(delivery_tag=b"first", settled=False, rcv_settle_mode=0)
    sender.link.send_again(sent, transfer, Data(b"x").encode())
    house.settle()
    assert sender.listener.settled == {b"first"}


def _node_links(peer: Peer) -> list[ReceivingLink]:
    sessions = amqp10_of(peer.connection).wire._incoming_channels.values()
    return [link for session in sessions for link in session.receivers.values()]


def test_another_message_format_detaches_the_link(house: House) -> None:
    house.declare("q")
    sender = producer(house)
    transfer = Transfer(delivery_tag=b"t", message_format=7, settled=True)
    sender.link.send_as(transfer, Data(b"x").encode())
    house.settle()
    assert sender.peer.link_faults == [("sender", "amqp:not-implemented", True)]


def test_an_alarm_takes_the_credit_and_gives_it_back(house: House) -> None:
    queue = house.declare("q")
    sender = producer(house)
    assert sender.link.credit == CREDIT
    house.node.set_alarm("memory", "memory is low", house.now)
    house.settle()
    assert sender.link.credit == 0
    peer = house.connect("another")
    late = peer.sender(peer.begin(), "/queues/q")
    assert late.link.credit == 0
    house.node.set_alarm("memory", "", house.now)
    house.settle()
    assert sender.link.credit == CREDIT
    assert late.link.credit == CREDIT
    sender.send(b"x")
    assert queue.message_count == 1


def test_credit_and_window_last_for_any_number_of_messages(house: House) -> None:
    queue = house.declare("q")
    sender = producer(house)
    for _ in range(10):
        assert sender.link.capacity() >= 500
        sender.send(*[b"x"] * 500)
        sender.send(*[b"x"] * 10, settled=True)
    assert queue.message_count == 5100
    assert sender.outcomes == ["accepted"] * 5000
