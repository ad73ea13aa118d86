"""Long lists are freed a part at a time."""

import pytest

from penstock.broker.discarded import KEPT_COUNT_MIN, STEP_COUNT, Discarded
from penstock.broker.topology import PurgeQueue
from penstock.wire.amqp091 import methods_generated as m
from tests.seeds.doubles import NOW, House


def test_a_long_list_is_freed_in_steps() -> None:
    discarded = Discarded()
    items = [object() for _ in range(STEP_COUNT * 2 + 1)]
    discarded.add(items)
    lengths = []
    while not discarded.is_empty():
        discarded.step()
        lengths.append(len(items))
    assert lengths == [STEP_COUNT + 1, 1, 0]


def test_a_short_list_is_not_kept() -> None:
    discarded = Discarded()
    discarded.add([object()] * (KEPT_COUNT_MIN - 1))
    assert discarded.is_empty()
    discarded.step()


def test_what_a_purge_has_dropped_is_freed_by_the_ticks_that_follow() -> None:
    house = House()
    peer = house.client()
    peer.call(m.QueueDeclare("q"))
    peer.publish("q", *[b"x"] * (KEPT_COUNT_MIN + STEP_COUNT))
    house.settle()
    vhost = house.node.state.vhost("/")
    vhost.apply(PurgeQueue("q"), NOW)
    assert vhost.queues["q"].message_count == 0
    assert house.node.has_work()
    house.node.flush(NOW)
    assert house.node.has_work()
    house.settle()
    assert house.node.state.discarded.is_empty()


@pytest.mark.parametrize("how", ["rolled back", "channel closed", "lost", "lost in its commit"])
def test_what_a_transaction_had_staged_is_freed_by_the_ticks_that_follow(how: str) -> None:
    house = House()
    peer = house.client()
    peer.call(m.QueueDeclare("q"))
    peer.call(m.TxSelect())
    peer.publish("q", *[b"x"] * (KEPT_COUNT_MIN + STEP_COUNT))
    house.settle()
    if how == "rolled back":
        peer.conversation.call(1, m.TxRollback())
    elif how == "channel closed":
        peer.conversation.call(1, m.ChannelClose(200, "", 0, 0))
    elif how == "lost in its commit":
        house.node.container.turns.units_max = 1
        peer.conversation.call(1, m.TxCommit())
    peer.deliver_to_node()
    if "lost" in how:
        house.node.lost(peer.connection, NOW)
    assert not house.node.state.discarded.is_empty()
    house.settle()
    assert house.node.state.discarded.is_empty()
    assert house.node.state.vhost("/").queues["q"].message_count == 0
