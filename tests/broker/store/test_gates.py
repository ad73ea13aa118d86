"""Nobody hears of anything before the flush that makes it safe, and of nothing after a failure.

A whole node with clients without sockets; the test answers the disk's flushes.
"""

import pytest

from penstock.broker.streams.stream import Stream
from penstock.client.events import Confirmed, Delivered, Replied
from penstock.storage.segment import FOLDER
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.amqp091.content import BasicProperties
from tests.broker.store.durable_house import DurableHouse
from tests.dialects.protocols import channel_of
from tests.seeds.doubles import NOW, House, Peer
from tests.storage.doubles import MemoryDisk

PERSISTENT = BasicProperties(delivery_mode=2)


@pytest.fixture
def house() -> DurableHouse:
    house = DurableHouse()
    house.node.flush(NOW)
    house.flushed()
    return house


def replies(peer: Peer) -> list[str]:
    return [type(event.method).__name__ for event in peer.events if isinstance(event, Replied)]


def confirmed(peer: Peer) -> list[tuple[int, bool]]:
    return [
        (event.delivery_tag, event.nack) for event in peer.events if isinstance(event, Confirmed)
    ]


def send(peer: Peer, body: bytes, properties: BasicProperties | None = PERSISTENT) -> None:
    peer.conversation.publish(1, "", "q", body, properties)


def test_a_confirm_leaves_after_the_flush_that_covers_its_message(house: DurableHouse) -> None:
    peer = house.durable_queue()
    send(peer, b"one")
    house.settle()
    assert confirmed(peer) == []
    house.flushed()
    assert confirmed(peer) == [(1, False)]


def test_a_flush_that_was_asked_for_before_does_not_cover_it(house: DurableHouse) -> None:
    peer = house.durable_queue()
    send(peer, b"one")
    house.settle()
    send(peer, b"two")
    house.settle()
    house.disk.answer()
    house.settle()
    assert confirmed(peer) == [(1, False)]
    house.disk.answer()
    house.settle()
    assert confirmed(peer) == [(1, False), (2, False)]


def test_a_transient_message_is_confirmed_at_once(house: DurableHouse) -> None:
    peer = house.durable_queue()
    send(peer, b"one", None)
    house.settle()
    assert confirmed(peer) == [(1, False)]


def test_a_message_is_delivered_without_waiting_for_the_disk(house: DurableHouse) -> None:
    peer = house.durable_queue()
    consumer = house.client()
    consumer.call(m.BasicConsume(queue="q"))
    send(peer, b"one")
    house.settle()
    assert consumer.bodies == [b"one"]
    assert confirmed(peer) == []


@pytest.mark.parametrize(
    "method",
    [
        m.QueueDeclare(queue="new", durable=True),
        m.ExchangeDeclare(exchange="new", type_="fanout", durable=True),
        m.QueueBind(queue="q", exchange="amq.fanout"),
        m.QueueDelete(queue="q"),
    ],
    ids=lambda method: type(method).__name__,
)
def test_a_change_of_durable_things_is_answered_after_the_flush(
    house: DurableHouse, method: m.Method
) -> None:
    peer = house.durable_queue()
    peer.call(method)
    assert replies(peer) == []
    house.flushed()
    assert replies(peer) == [type(method).__name__ + "Ok"]


def test_transient_things_are_declared_at_once(house: DurableHouse) -> None:
    peer = house.durable_queue()
    peer.call(m.QueueDeclare(queue="t"))
    assert replies(peer) == ["QueueDeclareOk"]


def test_whoever_declares_it_again_waits_for_the_same_flush(house: DurableHouse) -> None:
    first, second = house.durable_queue(), house.client()
    second.events.clear()
    first.call(m.QueueDeclare(queue="new", durable=True))
    second.call(m.QueueDeclare(queue="new", durable=True))
    assert (replies(first), replies(second)) == ([], [])
    house.flushed()
    assert (replies(first), replies(second)) == (["QueueDeclareOk"], ["QueueDeclareOk"])
    second.call(m.QueueDeclare(queue="new", durable=True))
    assert replies(second) == ["QueueDeclareOk"] * 2


def test_a_commit_is_answered_after_the_flush_and_is_there_as_a_whole(house: DurableHouse) -> None:
    house.durable_queue()
    peer = house.client()
    peer.call(m.TxSelect())
    before = house.disk.contents()
    for number in range(3):
        send(peer, b"%d" % number)
    house.settle()
    assert house.disk.contents() == before
    peer.events.clear()
    peer.call(m.TxCommit())
    assert replies(peer) == []
    whole = house.disk.contents()
    house.flushed()
    assert replies(peer) == ["TxCommitOk"]
    # Cut anywhere inside: none of it is there.
    (name,) = [name for name in whole if name.startswith(FOLDER)]
    for size in range(len(before[name]), len(whole[name])):
        revived = DurableHouse(MemoryDisk({name: whole[name][:size]}))
        assert revived.node.state.vhost("/").queue("q").message_count == 0
    revived = DurableHouse(MemoryDisk(whole))
    assert revived.node.state.vhost("/").queue("q").message_count == 3


READING: m.Method = m.BasicConsume(
    queue="s", arguments={"x-stream-cursor": "c", "x-stream-offset": "first"}
)


def stream_reader(house: DurableHouse) -> Peer:
    peer = house.durable_queue()
    peer.call(m.QueueDeclare(queue="s", durable=True, arguments={"x-queue-type": "stream"}))
    peer.call(m.BasicQos(prefetch_count=10))
    house.flushed()
    peer.events.clear()
    return peer


def test_a_reader_with_a_new_cursor_is_answered_after_the_flush(house: DurableHouse) -> None:
    peer = stream_reader(house)
    peer.call(READING)
    assert replies(peer) == []
    house.flushed()
    assert replies(peer) == ["BasicConsumeOk"]
    revived = DurableHouse(MemoryDisk(house.disk.contents()))
    stream = revived.node.state.vhost("/").queue("s")
    assert isinstance(stream, Stream)
    assert stream.cursors() == [("c", 0, 0)]


def test_whoever_uses_a_cursor_that_is_not_safe_waits_for_it(house: DurableHouse) -> None:
    first, second = stream_reader(house), stream_reader(house)
    going_on = m.BasicConsume(queue="s", arguments={"x-stream-cursor": "c"})
    first.call(READING)
    second.call(going_on)
    assert (replies(first), replies(second)) == ([], [])
    house.flushed()
    assert (replies(first), replies(second)) == (["BasicConsumeOk"], ["BasicConsumeOk"])
    third = stream_reader(house)
    third.call(going_on)
    assert replies(third) == ["BasicConsumeOk"], "all is safe: nothing to wait for"


def test_a_broker_without_a_disk_remembers_nobody_who_would_wait() -> None:
    house = House()
    peer = house.client()
    peer.call(m.TxSelect())
    for _ in range(3):
        peer.call(m.TxCommit())
    assert replies(peer)[-3:] == ["TxCommitOk"] * 3
    assert house.node.container.held_list == []


def test_output_stays_in_order_behind_a_gate(house: DurableHouse) -> None:
    peer = house.durable_queue()
    peer.call(m.BasicConsume(queue="q", consumer_tag="c"))
    peer.events.clear()
    peer.conversation.call(1, m.QueueDeclare(queue="new", durable=True))
    send(peer, b"one", None)
    house.settle()
    assert peer.events == []
    house.flushed()
    kinds = [type(event) for event in peer.events]
    assert kinds == [Replied, Delivered, Confirmed]


def test_nothing_is_confirmed_when_the_disk_is_full(house: DurableHouse) -> None:
    peer = house.durable_queue()
    declaring = house.client()
    declaring.events.clear()
    house.disk.room = 10
    send(peer, b"one")
    declaring.conversation.call(1, m.QueueDeclare(queue="new", durable=True))
    house.settle_once()
    assert "no space left" in house.node.storage_failure
    for _ in range(3):
        house.disk.settle()
        house.settle_once()
    assert confirmed(peer) == []
    assert replies(declaring) == []


def test_nothing_is_confirmed_after_a_flush_failed(house: DurableHouse) -> None:
    peer = house.durable_queue()
    send(peer, b"one")
    house.settle()
    flush = house.disk.flushes.pop()
    flush.listener.flush_failed("input/output error", NOW)
    assert house.node.storage_failure == "input/output error"
    send(peer, b"two")
    for _ in range(3):
        house.disk.settle()
        house.settle_once()
    assert confirmed(peer) == []


def test_a_start_flushes_what_a_killed_process_left_in_the_page_cache(house: DurableHouse) -> None:
    peer = house.durable_queue()
    send(peer, b"one")
    house.settle()
    revived = DurableHouse(MemoryDisk(house.disk.contents()))
    assert not revived.node.is_all_durable()
    assert len(revived.disk.flushes) == 1
    revived.disk.settle()
    assert revived.node.is_all_durable()


def test_a_channel_that_closed_waits_for_nothing(house: DurableHouse) -> None:
    peer = house.durable_queue()
    send(peer, b"one")
    house.settle()
    confirms = channel_of(peer.connection).confirms
    assert confirms is not None
    assert confirms.is_waiting()
    peer.call(m.ChannelClose(200, "enough"))
    house.flushed()
    assert not confirms.is_waiting()
