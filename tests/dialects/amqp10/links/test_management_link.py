"""The pair of links to the management node."""

from __future__ import annotations

import pytest

from penstock.broker.events import EventKind
from penstock.broker.topology import DeclareQueue
from penstock.dialects.amqp10.links.management_link import RESPONSES_MAX
from penstock.storage.memory_disk import MemoryDisk
from penstock.wire.amqp10.performatives_generated import AmqpValue, Header, Properties
from penstock.wire.amqp10.sending import SentDelivery
from tests.dialects.amqp10.doubles import House, Peer, Producer, Receiver
from tests.support.recorded_events import RecordedEvents

PAIRED: dict[str, object] = {"paired": True}


def request(method: str, to: str, body: object = None) -> tuple[bytes, bytes]:
    properties = Properties(message_id="id", to=to, subject=method, reply_to="$me")
    return properties.encode(), AmqpValue(body).encode()


def pair(peer: Peer, address: str, credit: int = 10) -> tuple[Producer, Receiver]:
    session = peer.begin()
    requests = peer.sender(session, address, "pair", properties=PAIRED)
    responses = peer.receiver(session, address, "pair", credit=credit, properties=PAIRED)
    return requests, responses


def statuses(responses: Receiver) -> list[str | None]:
    found = [delivery.sections.decode(0x73) for delivery in responses.got]
    return [said.subject for said in found if isinstance(said, Properties)]


@pytest.mark.parametrize("address", ["/management", "$management"])
def test_a_queue_is_declared_and_deleted(address: str) -> None:
    house = House()
    peer = house.connect()
    requests, responses = pair(peer, address)
    assert peer.attached[requests.link].properties == PAIRED
    requests.link.send_settled(*request("PUT", "/queues/made", {}))
    requests.link.send(SentDelivery(), *request("GET", "/queues/made"))
    house.settle()
    assert "made" in house.node.state.vhost("/").queues
    assert statuses(responses) == ["201", "200"]
    assert requests.outcomes == ["accepted"]
    said = responses.got[0].sections.decode(0x73)
    assert isinstance(said, Properties)
    assert said.correlation_id == "id"
    requests.link.send_settled(*request("DELETE", "/queues/made"))
    house.settle()
    assert "made" not in house.node.state.vhost("/").queues


def test_what_is_changed_is_told_with_who_asked_and_from_where() -> None:
    house = House()
    events = RecordedEvents()
    house.node.container.events = events
    peer = house.connect()
    requests, _ = pair(peer, "/management")
    for method, to in (
        ("PUT", "/queues/made"),
        ("PUT", "/queues/made"),
        ("GET", "/queues/made"),
        ("DELETE", "/queues/made"),
        ("DELETE", "/queues/made"),
    ):
        requests.link.send_settled(*request(method, to, {} if method == "PUT" else None))
        house.settle()
    told = [event for event in events.events if event.kind is EventKind.TOPOLOGY_CHANGED]
    assert [event.facts for event in told] == [
        {"change": "DeclareQueue", "name": "made", "by": "guest", "door": "AMQP 1.0 management"},
        {"change": "DeleteQueue", "name": "made", "by": "guest", "door": "AMQP 1.0 management"},
    ]
    assert {event.party.peer_host for event in told} == {peer.connection.peer.host}


def test_responses_wait_for_credit_and_their_number_is_bounded() -> None:
    house = House()
    peer = house.connect()
    requests, responses = pair(peer, "/management", credit=0)
    for _ in range(RESPONSES_MAX + 1):
        requests.link.send(SentDelivery(), *request("GET", "/queues/none"))
        house.settle()
    assert responses.got == []
    assert requests.outcomes.count("accepted") == RESPONSES_MAX
    assert requests.outcomes.count("rejected") == 1
    responses.link.offer(2)
    responses.link.flow_if_needed()
    house.settle()
    assert len(responses.got) == 2


def test_a_request_that_cannot_be_answered_is_not_carried_out() -> None:
    house = House()
    peer = house.connect()
    requests = peer.sender(peer.begin(), "/management", "alone")
    requests.link.send(SentDelivery(), *request("PUT", "/queues/made", {}))
    house.settle()
    assert requests.outcomes == ["rejected"]
    assert "made" not in house.node.state.vhost("/").queues
    requests.link.send_settled(*request("PUT", "/queues/made", {}))
    house.settle()
    assert peer.link_faults == [("alone", "amqp:precondition-failed", True)]


def test_a_response_waits_until_what_was_declared_is_safe() -> None:
    disk = MemoryDisk(at_once=False)
    house = House(disk)
    house.settle()
    disk.answer_flushes(house.now)
    peer = house.connect()
    requests, responses = pair(peer, "/management")
    requests.link.send_settled(*request("PUT", "/queues/made", {}))
    house.settle()
    assert responses.got == []
    # The second flush covers what came while the first was under way.
    for _ in range(2):
        disk.answer_flushes(house.now)
        house.settle()
    assert statuses(responses) == ["201"]


def test_a_purge_is_answered_when_it_is_safe() -> None:
    disk = MemoryDisk(at_once=False)
    house = House(disk)
    vhost = house.node.state.vhost("/")
    vhost.apply(DeclareQueue("q", durable=True), house.now)
    disk.answer_flushes(house.now)
    house.settle()
    disk.answer_flushes(house.now)
    peer = house.connect()
    peer.sender(peer.begin(), "/queues/q").send(b"one", head=Header(durable=True).encode())
    for _ in range(3):
        disk.answer_flushes(house.now)
        house.settle()
    requests, responses = pair(peer, "/management")
    requests.link.send_settled(*request("DELETE", "/queues/q/messages"))
    house.settle()
    assert house.queue("q").message_count == 0
    assert responses.got == []
    for _ in range(2):
        disk.answer_flushes(house.now)
        house.settle()
    assert statuses(responses) == ["200"]
