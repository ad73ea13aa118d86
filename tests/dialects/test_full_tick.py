"""How much input one tick takes: it becomes one batch of the journal, and in a cluster one operation."""

from __future__ import annotations

import pytest

from penstock.dialects.turn import LARGE_BODY_OCTETS, TICK_OCTETS_MAX
from penstock.formats.peer_limits import OPERATION_BYTES_MAX
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.amqp091.limits import Limits
from penstock.wire.amqp10.performatives_generated import Discharge
from penstock.wire.outgoing import DELIVERY_BYTES_MAX
from tests.dialects.amqp10.doubles import House as House10
from tests.dialects.amqp10.transactions.transaction_doubles import Controller, post
from tests.seeds.doubles import NOW, House, Peer

OCTETS_MAX = 3_000
# Of a tick's own: what it has begun is completed.
BODY = b"x" * 2_000


def small_house() -> House:
    house = House()
    house.node.container.turns.octets_max = OCTETS_MAX
    return house


def depth(house: House) -> int:
    return house.node.state.vhost("/").queues["q"].message_count


def publishers(house: House, count: int) -> list[Peer]:
    peers = [house.client() for _ in range(count)]
    peers[0].call(m.QueueDeclare("q"))
    house.settle()
    return peers


def test_what_a_tick_may_take_and_the_largest_transaction_fit_into_one_operation() -> None:
    assert TICK_OCTETS_MAX + OPERATION_BYTES_MAX // 2 < OPERATION_BYTES_MAX
    assert TICK_OCTETS_MAX + Limits().message_bytes_max < OPERATION_BYTES_MAX


def test_messages_that_several_clients_complete_at_once_are_spread_over_ticks() -> None:
    house = small_house()
    peers = publishers(house, 5)
    for peer in peers:
        peer.publish("q", BODY)
        peer.deliver_to_node()
    assert depth(house) == 2
    assert [peer.transport.is_reading for peer in peers] == [True, False, False, False, False]
    depths = []
    while house.node.has_work():
        house.node.flush(NOW)
        depths.append(depth(house))
    assert depths[:2] == [2, 4]
    assert depths[-1] == 5
    assert all(peer.transport.is_reading for peer in peers)


def test_commits_that_come_together_are_spread_over_ticks() -> None:
    house = small_house()
    peers = publishers(house, 3)
    for peer in peers:
        peer.call(m.TxSelect())
        peer.publish("q", BODY, BODY)
        house.settle()
    for peer in peers:
        peer.conversation.tell(1, m.TxCommit())
        peer.deliver_to_node()
    assert depth(house) == 2
    house.settle()
    assert depth(house) == 6


def test_commits_of_one_client_that_come_together_are_spread_over_ticks() -> None:
    house = small_house()
    (peer,) = publishers(house, 1)
    peer.call(m.TxSelect())
    for _ in range(3):
        peer.publish("q", BODY, BODY)
        peer.conversation.tell(1, m.TxCommit())
    peer.deliver_to_node()
    assert depth(house) <= 2
    house.settle()
    assert depth(house) == 6


@pytest.mark.parametrize("count", [1, 4])
def test_a_message_that_is_larger_than_a_tick_may_take_is_taken_alone(count: int) -> None:
    house = small_house()
    peers = publishers(house, count)
    for peer in peers:
        peer.publish("q", BODY * 5)
        peer.deliver_to_node()
    assert depth(house) == 1
    house.settle()
    assert depth(house) == count


def test_large_messages_that_one_client_completes_at_once_are_spread_over_ticks() -> None:
    house = House()
    house.node.container.turns.octets_max = LARGE_BODY_OCTETS
    (peer,) = publishers(house, 1)
    body = b"x" * LARGE_BODY_OCTETS
    peer.publish("q", body, body, body)
    said = peer.said()
    # Only what completes the first one is missing, and then all come together.
    peer.connection.received(said[: LARGE_BODY_OCTETS // 2], NOW)
    house.node.flush(NOW)
    peer.connection.received(said[LARGE_BODY_OCTETS // 2 :], NOW)
    depths = [depth(house)]
    while house.node.has_work():
        house.node.flush(NOW)
        depths.append(depth(house))
    assert depths[0] == 1
    assert depths[-1] == 3


def test_gets_that_come_together_are_answered_tick_by_tick() -> None:
    house = House()
    (peer,) = publishers(house, 1)
    body = bytes(DELIVERY_BYTES_MAX)
    peer.publish("q", body, body, body)
    house.settle()
    for _ in range(3):
        peer.conversation.tell(1, m.BasicGet("q", no_ack=True))
    peer.deliver_to_node()
    depths = [depth(house)]
    while house.node.has_work():
        house.node.flush(NOW)
        depths.append(depth(house))
    assert depths[:2] == [2, 1]
    assert depths[-1] == 0


def test_transfers_of_amqp_1_0_are_spread_over_ticks() -> None:
    house = House10()
    house.declare("q")
    producers = []
    for number in range(4):
        peer = house.connect(f"container{number}")
        producers.append(peer.sender(peer.begin(), "/queues/q"))
    house.node.container.turns.octets_max = OCTETS_MAX
    for producer in producers:
        producer.put(BODY)
        producer.peer.connection.received(producer.peer.said(), house.now)
    queue = house.node.state.vhost("/").queues["q"]
    assert queue.message_count == 2
    house.settle()
    assert queue.message_count == 4


def test_discharges_that_come_together_are_spread_over_ticks() -> None:
    house = House10()
    house.declare("q")
    begun = []
    for number in range(3):
        peer = house.connect(f"container{number}")
        session = peer.begin()
        controller = Controller(peer, session)
        txn_id = controller.declare()
        post(peer.sender(session, "/queues/q"), txn_id, BODY, BODY)
        house.settle()
        begun.append((peer, controller, txn_id))
    house.node.container.turns.octets_max = OCTETS_MAX
    for peer, controller, txn_id in begun:
        controller.put(Discharge(txn_id))
        peer.connection.received(peer.said(), house.now)
    queue = house.node.state.vhost("/").queues["q"]
    assert queue.message_count == 2
    house.settle()
    assert queue.message_count == 6
