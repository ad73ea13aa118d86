"""What a node holds for its clients, by kind."""

from __future__ import annotations

from penstock.broker.queues.paged_list import HEAD_COUNT_KEPT, HEAD_COUNT_MAX
from penstock.broker.sampled import SAMPLE_COUNT
from penstock.broker.topology import DeclareExchange, DeclareQueue
from penstock.node.held import MESSAGE_BYTES
from penstock.storage.memory_disk import MemoryDisk
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.amqp091.content import BasicProperties
from penstock.wire.amqp10.performatives_generated import Source
from tests.dialects.amqp10.doubles import House as House10
from tests.dialects.amqp10.transactions.transaction_doubles import Scene, post
from tests.seeds.doubles import NOW, House, Peer

SIZE = 10_000
BODY = bytes(SIZE)
COUNT = 20


def client(house: House) -> Peer:
    peer = house.client()
    peer.call(m.QueueDeclare("q"))
    return peer


def test_a_node_without_messages_holds_next_to_nothing() -> None:
    house = House()
    client(house)
    assert house.node.held_bytes() < 100


def test_ready_messages_are_held_until_they_are_gone() -> None:
    house = House()
    peer = client(house)
    peer.publish("q", *[BODY] * COUNT)
    house.settle()
    assert house.node.held_bytes() == COUNT * (SIZE + MESSAGE_BYTES)
    peer.call(m.QueuePurge("q"))
    assert house.node.held_bytes() == 0


def test_unacknowledged_messages_are_held() -> None:
    house = House()
    peer = client(house)
    peer.publish("q", *[BODY] * COUNT)
    peer.call(m.BasicConsume("q"))
    assert house.node.held_bytes() == COUNT * (SIZE + MESSAGE_BYTES)
    peer.conversation.tell(1, m.BasicAck(COUNT, True))
    house.settle()
    assert house.node.held_bytes() == 0


def test_many_unacknowledged_messages_are_told_by_a_sample() -> None:
    house = House()
    peer = client(house)
    count = SAMPLE_COUNT * 8
    peer.publish("q", *[bytes(90 + number % 21) for number in range(count)])
    peer.call(m.BasicConsume("q"))
    held = house.node.held_bytes() - count * MESSAGE_BYTES
    assert 0.9 < held / (count * 100) < 1.1


def test_a_content_in_the_making_is_held() -> None:
    house = House()
    peer = client(house)
    body = bytes(500_000)
    peer.publish("q", body)
    said = peer.said()
    peer.connection.received(said[:400_000], NOW)
    assert 350_000 < house.node.held_bytes() <= 400_000
    peer.connection.received(said[400_000:], NOW)
    assert house.node.held_bytes() == len(body) + MESSAGE_BYTES


def test_a_delivery_in_the_making_is_held() -> None:
    house = House10()
    house.declare("q")
    peer = house.connect()
    sender = peer.sender(peer.begin(), "/queues/q")
    sender.put(bytes(500_000))
    said = peer.said()
    peer.connection.received(said[:400_000], house.now)
    assert 350_000 < house.node.held_bytes() <= 400_000


def test_what_a_transaction_has_staged_is_held_until_its_end() -> None:
    house = House()
    peer = client(house)
    peer.call(m.TxSelect())
    peer.publish("q", *[BODY] * COUNT)
    house.settle()
    # Their headers too.
    held = house.node.held_bytes()
    assert COUNT * (SIZE + MESSAGE_BYTES) < held < COUNT * (SIZE + MESSAGE_BYTES + 100)
    peer.call(m.TxRollback())
    assert house.node.held_bytes() == 0
    peer.publish("q", *[BODY] * COUNT)
    house.settle()
    peer.call(m.TxCommit())
    assert house.node.held_bytes() == COUNT * (SIZE + MESSAGE_BYTES)


def test_a_commit_that_takes_several_turns_is_held_meanwhile() -> None:
    house = House()
    peer = client(house)
    peer.call(m.TxSelect())
    peer.publish("q", *[BODY] * COUNT)
    house.settle()
    house.node.container.turns.units_max = 1
    peer.conversation.call(1, m.TxCommit())
    peer.deliver_to_node()
    assert house.node.state.vhost("/").queues["q"].message_count == 0
    assert house.node.held_bytes() >= COUNT * (SIZE + MESSAGE_BYTES)


def test_what_waits_for_the_next_write_is_held() -> None:
    house = House()
    peer = client(house)
    peer.publish("q", BODY)
    peer.conversation.call(1, m.BasicConsume("q", no_ack=True))
    peer.deliver_to_node()
    house.node._dispatch(NOW)
    assert SIZE < house.node.held_bytes() < SIZE + 200
    house.node.flush(NOW)
    assert house.node.held_bytes() == 0


def test_delayed_messages_are_held_until_they_go_on() -> None:
    house = House()
    peer = client(house)
    vhost = house.node.state.vhost("/")
    arguments: dict[str, object] = {"x-delayed-type": "fanout"}
    vhost.apply(DeclareExchange("later", "x-delayed-message", arguments=arguments), NOW)
    properties = BasicProperties(headers={"x-delay": 1000})
    for _ in range(COUNT):
        peer.conversation.publish(1, "later", "", BODY, properties)
    house.settle()
    assert house.node.held_bytes() == COUNT * (SIZE + MESSAGE_BYTES)
    house.node.timers.fire_due(NOW + 1000)
    house.settle()
    assert house.node.held_bytes() == 0


def test_what_is_out_with_a_receiver_and_with_a_suspended_link_is_held() -> None:
    house = House10()
    house.declare("q")
    peer = house.connect()
    session = peer.begin()
    peer.sender(session, "/queues/q").send(*[BODY] * COUNT)
    ready = house.node.held_bytes()
    assert ready >= COUNT * (SIZE + MESSAGE_BYTES)
    source = Source("/queues/q", expiry_policy="never", timeout=60)
    peer.receiver(session, "/queues/q", source=source)
    assert house.queue("q").message_count == 0
    assert abs(house.node.held_bytes() - ready) < 200
    peer.lose()
    assert house.node.amqp10.links.suspended_count() == 1
    assert abs(house.node.held_bytes() - ready) < 200


def test_what_a_transaction_of_amqp_1_0_has_staged_is_held() -> None:
    scene = Scene(House10())
    txn_id = scene.controller.declare()
    for _ in range(COUNT):
        post(scene.sender, txn_id, BODY)
    scene.house.settle()
    assert scene.house.node.held_bytes() >= COUNT * SIZE
    scene.controller.rollback(txn_id)
    assert scene.house.node.held_bytes() < 100


def test_what_was_paged_out_is_not_held() -> None:
    house = House10(MemoryDisk())
    vhost = house.node.state.vhost("/")
    vhost.apply(DeclareQueue("q", durable=True), house.now)
    peer = house.connect()
    sender = peer.sender(peer.begin(), "/queues/q")
    body = bytes(100)
    for _ in range(HEAD_COUNT_MAX // 1000 + 2):
        sender.send(*[body] * 1000)
    queue = house.queue("q")
    assert queue.message_count > HEAD_COUNT_MAX
    assert house.node.held_bytes() < (HEAD_COUNT_KEPT + 1) * (len(body) + 50 + MESSAGE_BYTES)
