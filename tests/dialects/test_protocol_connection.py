"""What the node may ask of a connection, asked of both protocols."""

from __future__ import annotations

import pytest

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.message_queue import MessageQueue
from penstock.dialects.amqp091.connection import Connection as Connection091
from penstock.dialects.amqp10.connection import Connection as Connection10
from penstock.dialects.protocol_connection import ProtocolConnection
from penstock.wire.amqp091 import methods_generated as m
from tests.dialects.amqp10.doubles import House as House10
from tests.seeds.doubles import House as House091

QUESTIONS = sorted(name for name in vars(ProtocolConnection) if not name.startswith("_"))
NOW = 1
# What one message costs beside its body, in these tests.
MESSAGE_BYTES = 1_000


class Scene:
    """A client of one of the protocols that has two messages of ten octets and settled neither."""

    def __init__(self, protocol: str) -> None:
        bodies = [b"x" * 10, b"y" * 10]
        if protocol == "amqp091":
            house = House091()
            peer = house.client()
            peer.call(m.QueueDeclare("q"))
            peer.publish("q", *bodies)
            peer.call(m.BasicConsume("q", "tag"))
            self.connection = peer.connection.protocol
            self.queue: MessageQueue = house.node.state.vhost("/").queues["q"]
        else:
            house10 = House10()
            self.queue = house10.declare("q")
            client = house10.connect()
            session = client.begin()
            client.sender(session, "/queues/q").send(*bodies)
            client.receiver(session, "/queues/q")
            self.connection = client.connection.protocol

    def unsettled(self) -> list[bytes]:
        found: list[tuple[MessageQueue, QueueEntry]] = []
        self.connection.add_unsettled(found)
        assert all(queue is self.queue for queue, _ in found)
        return [entry.message.body[-10:] for _, entry in found]


@pytest.fixture(params=["amqp091", "amqp10"])
def scene(request: pytest.FixtureRequest) -> Scene:
    return Scene(request.param)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("kind", [Connection091, Connection10])
def test_every_question_has_an_answer_in_both_protocols(
    kind: type[ProtocolConnection], question: str
) -> None:
    assert getattr(kind, question) is not getattr(ProtocolConnection, question)


def test_there_are_questions() -> None:
    assert {"received", "lost", "stop", "held_bytes", "add_unsettled"} <= set(QUESTIONS)


def test_a_connection_names_its_virtual_host_and_what_is_out_with_it(scene: Scene) -> None:
    assert scene.connection.vhost_name() == "/"
    assert scene.unsettled() == [b"x" * 10, b"y" * 10]
    assert scene.connection.held_bytes(MESSAGE_BYTES) >= 2 * (MESSAGE_BYTES + 10)
    assert scene.connection.held_bytes(0) < MESSAGE_BYTES


def test_what_is_out_with_a_connection_can_be_taken_bit_by_bit(scene: Scene) -> None:
    taken: list[bytes] = []
    for part in scene.connection.unsettled_parts():
        while not part.is_over:
            found = part.take(1)
            assert len(found) <= 1
            taken += [entry.message.body[-10:] for _, entry in found]
    assert sorted(taken) == sorted(scene.unsettled())


def test_every_dialect_counts_its_logins() -> None:
    house = House091()
    house.client()
    assert (
        house.node.amqp091.login_counts.succeeded,
        house.node.amqp10.login_counts.succeeded,
    ) == (1, 0)
    house10 = House10()
    house10.connect()
    assert house10.node.amqp10.login_counts.succeeded == 1


def test_only_a_protocol_with_channels_counts_them() -> None:
    assert Scene("amqp091").connection.channel_count() == 1
    assert Scene("amqp10").connection.channel_count() == 0


def test_what_is_not_settled_goes_back_with_a_connection_that_is_lost(scene: Scene) -> None:
    assert (scene.queue.message_count, scene.queue.unacked_count) == (0, 2)
    scene.connection.lost(NOW)
    assert (scene.queue.message_count, scene.queue.unacked_count) == (2, 0)
    assert scene.queue.consumer_count == 0
    assert scene.unsettled() == []


@pytest.mark.parametrize("way", ["stop", "failed"])
def test_a_connection_that_the_server_ends_gives_everything_back(scene: Scene, way: str) -> None:
    if way == "stop":
        scene.connection.stop("a test", NOW)
    else:
        scene.connection.failed(NOW)
    assert (scene.queue.message_count, scene.queue.unacked_count) == (2, 0)


def test_without_an_alarm_no_message_is_unfinished(scene: Scene) -> None:
    assert scene.connection.unfinished_octets() == 0
    assert not scene.connection.is_finishing()
