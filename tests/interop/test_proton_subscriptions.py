"""Durable and shared subscriptions on a topic exchange, with python-qpid-proton."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.durable_broker import durable_broker

pytest.importorskip("proton", reason="python-qpid-proton is not installed")

from proton import Link, Message, Terminus, symbol
from proton import Timeout as ProtonTimeout
from proton.reactor import Container, ReceiverOption
from proton.utils import BlockingConnection, BlockingReceiver

PATIENCE_SECONDS = 15.0
# After this much silence there is no more.
QUIET_SECONDS = 1.0
SOURCE = "/exchanges/amq.topic/news.%23"
TARGET = "/exchanges/amq.topic/news.uk"

pytestmark = [
    pytest.mark.timeout(90),
    # Proton's Python binding leaves its own sockets to the collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


class Durable(ReceiverOption):
    def apply(self, link: Link) -> None:
        link.source.durability = Terminus.DELIVERIES
        link.source.expiry_policy = Terminus.EXPIRE_NEVER


class Shared(Durable):
    def apply(self, link: Link) -> None:
        super().apply(link)
        link.source.capabilities.put_object(symbol("shared"))


def connected(port: int, container_id: str) -> BlockingConnection:
    container = Container()
    container.container_id = container_id
    address = f"amqp://guest:guest@127.0.0.1:{port}"
    return BlockingConnection(address, timeout=PATIENCE_SECONDS, container=container)


def publish(port: int, *bodies: str) -> None:
    connection = connected(port, "publisher")
    sender = connection.create_sender(TARGET)
    for body in bodies:
        sender.send(Message(body=body, durable=True))
    connection.close()


def all_of(receiver: BlockingReceiver) -> list[str]:
    found = []
    timeout = PATIENCE_SECONDS
    while True:
        try:
            found.append(str(receiver.receive(timeout=timeout).body))
        except ProtonTimeout:
            return found
        receiver.accept()
        timeout = QUIET_SECONDS


def test_a_durable_subscription_gathers_while_its_owner_is_away_and_over_a_kill(
    tmp_path: Path,
) -> None:
    with durable_broker(tmp_path) as broker:
        broker.start()
        away = connected(broker.port, "reader")
        away.create_receiver(SOURCE, name="mine", options=Durable())
        away.close()
        publish(broker.port, "before")
        broker.kill()
        broker.start()
        publish(broker.port, "after")
        back = connected(broker.port, "reader")
        receiver = back.create_receiver(SOURCE, name="mine", options=Durable())
        assert all_of(receiver) == ["before", "after"]
        back.close()


def test_members_of_a_shared_subscription_take_turns(tmp_path: Path) -> None:
    with durable_broker(tmp_path) as broker:
        broker.start()
        team = connected(broker.port, "team")
        members = [
            team.create_receiver(SOURCE, name=f"news|{number}", credit=10, options=Shared())
            for number in range(2)
        ]
        publish(broker.port, *[str(number) for number in range(10)])
        shares = [all_of(member) for member in members]
        assert sorted(shares[0] + shares[1]) == [str(number) for number in range(10)]
        assert all(shares)
        team.close()
