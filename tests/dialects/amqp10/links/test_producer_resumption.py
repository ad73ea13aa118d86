"""Suspension, resumption and stealing of producers' links (specification 2.6.13)."""

from __future__ import annotations

import pytest

from penstock.broker.message import Message
from penstock.broker.publishing.publish import PublishInterceptor
from penstock.broker.queues.message_queue import MessageQueue
from penstock.wire.amqp10.performatives_generated import Accepted, Data, Target, Transfer
from penstock.wire.amqp10.sending import SentDelivery
from penstock.wire.amqp10.session import OUTCOME_ACCEPTED
from tests.dialects.amqp10.doubles import House, Peer, Producer

TIMEOUT_SECONDS = 60


@pytest.fixture
def house() -> House:
    return House()


def produce(house: House, **terms: object) -> Producer:
    peer = house.connect()
    target = Target("/queues/q", timeout=TIMEOUT_SECONDS, expiry_policy="connection-close")
    return peer.sender(peer.begin(), None, target=target, **terms)  # type: ignore[arg-type]


def test_a_producer_that_comes_back_hears_what_became_of_its_deliveries(house: House) -> None:
    queue = house.declare("q")
    first = produce(house)
    first.put(b"1", b"2")
    # The node hears it, and its answer is lost.
    first.peer.connection.received(first.peer.said(), house.now)
    house.node.flush(house.now)
    tags = [sent.delivery_tag() for sent in first.link.unsettled.values()]
    first.peer.lose()
    again = produce(house, unsettled=dict.fromkeys([*tags, b"new"]))
    known = again.peer.attached[again.link].unsettled
    assert known == dict.fromkeys(tags, OUTCOME_ACCEPTED)
    # It sends everything again all the same, and with the flag or without.
    for tag in [*tags, b"new"]:
        sent = SentDelivery()
        sent.tag = tag
        transfer = Transfer(delivery_tag=tag, settled=False, resume=tag == tags[0])
        again.link.send_again(sent, transfer, Data(b"again").encode())
    house.settle()
    assert again.outcomes == ["accepted"] * 3
    assert again.listener.settled == {*tags, b"new"}
    assert queue.message_count == 3


def test_a_resumed_delivery_may_only_be_settled(house: House) -> None:
    queue = house.declare("q")
    first = produce(house)
    first.put(b"1")
    first.peer.connection.received(first.peer.said(), house.now)
    house.node.flush(house.now)
    (tag,) = [sent.delivery_tag() for sent in first.link.unsettled.values()]
    first.peer.lose()
    again = produce(house, unsettled={tag: None})
    again.link.send_as(Transfer(delivery_tag=tag, settled=True, resume=True, state=Accepted()), b"")
    house.settle()
    assert again.peer.link_faults == []
    again.send(b"2")
    assert queue.message_count == 2


def test_a_producer_that_begins_anew_may_use_old_tags(house: House) -> None:
    queue = house.declare("q")
    first = produce(house)
    first.send(b"1")
    first.peer.lose()
    again = produce(house)
    again.send(b"2")
    assert queue.message_count == 2
    assert again.outcomes == ["accepted"]


def test_the_outcome_of_a_delivery_that_was_held_is_remembered(house: House) -> None:
    queue = house.declare("q")
    holding = Holding()
    house.node.intercept_publishes(holding)
    first = produce(house)
    first.send(b"1", b"2")
    tags = [sent.delivery_tag() for sent in first.link.unsettled.values()]
    first.peer.lose()
    again = produce(house, unsettled=dict.fromkeys(tags))
    assert again.peer.attached[again.link].unsettled == dict.fromkeys(tags)
    for tag in tags:
        sent = SentDelivery()
        sent.tag = tag
        transfer = Transfer(delivery_tag=tag, settled=False, resume=True)
        again.link.send_again(sent, transfer, Data(b"again").encode())
    house.settle()
    assert again.outcomes == []
    for message in holding.held:
        message.release()
    house.settle()
    assert again.outcomes == ["accepted"] * 2
    assert queue.message_count == 2


class Holding(PublishInterceptor):
    def __init__(self) -> None:
        self.held: list[Message] = []

    def admits(self, message: Message, queues: list[MessageQueue], now: int) -> bool:
        message.hold()
        self.held.append(message)
        return True


def test_exactly_once_where_the_receiver_settles_second(house: House) -> None:
    queue = house.declare("q")
    first = produce(house, rcv_settle_mode=1)
    first.send(b"1")
    assert first.outcomes == ["accepted"]
    (tag,) = first.listener.outcomes
    first.peer.lose()
    again = produce(house, rcv_settle_mode=1, unsettled={tag: Accepted()})
    assert again.peer.attached[again.link].unsettled == {tag: OUTCOME_ACCEPTED}
    again.link.send_as(Transfer(delivery_tag=tag, settled=True, resume=True), b"")
    house.settle()
    assert queue.message_count == 1


def test_a_suspended_producer_expires(house: House) -> None:
    house.declare("q")
    produce(house).peer.lose()
    assert house.node.amqp10.links.suspended_count() == 1
    house.pass_time(TIMEOUT_SECONDS * 1000)
    assert house.node.amqp10.links.suspended_count() == 0


def test_a_producer_steals_its_own_link(house: House) -> None:
    queue = house.declare("q")
    first = produce(house)
    first.send(b"1")
    again = produce(house)
    assert first.peer.link_faults == [("sender", "amqp:link:stolen", True)]
    again.send(b"2")
    assert queue.message_count == 2
    peer: Peer = first.peer
    peer.lose()
    again.send(b"3")
    assert queue.message_count == 3
