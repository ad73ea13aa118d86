"""Input that stops where the listener says, and goes on from there."""

from __future__ import annotations

from penstock.wire.amqp091 import methods_generated as m
from tests.seeds.doubles import NOW, House

COUNT = 7


def test_nothing_is_lost_or_done_twice_however_the_input_is_cut_and_stopped() -> None:
    """Stopped after every method, and cut at every octet once."""
    for cut in range(0, 200, 7):
        house = House()
        house.node.container.turns.units_max = 1
        peer = house.client()
        for number in range(COUNT):
            peer.conversation.tell(1, m.QueueDeclare(f"q{number}", no_wait=True))
            peer.publish(f"q{number}", b"%d" % number, b"again")
        said = peer.said()
        peer.connection.received(said[:cut], NOW)
        peer.connection.received(said[cut:], NOW)
        house.settle()
        queues = house.node.state.vhost("/").queues
        assert [queues[f"q{number}"].message_count for number in range(COUNT)] == [2] * COUNT
