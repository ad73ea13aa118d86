import socket
from pathlib import Path

import pytest

from bench.brokers import READY_LINE, BrokerUnavailableError, RabbitMQ, free_port


def test_without_the_package_rabbitmq_is_skipped_with_advice(tmp_path: Path) -> None:
    with pytest.raises(BrokerUnavailableError, match="apt-get install rabbitmq-server"):
        RabbitMQ(tmp_path / "rabbitmq-server")


@pytest.mark.parametrize(
    "line",
    [
        "penstock ready amqp=127.0.0.1:5672 pid=42",
        "penstock ready amqp=127.0.0.1:5672 http=127.0.0.1:15672 pid=42",
    ],
)
def test_the_ready_line_is_understood_with_and_without_http(line: str) -> None:
    found = READY_LINE.search(line)
    assert found is not None
    assert (found["host"], found["port"], found["pid"]) == ("127.0.0.1", "5672", "42")


def test_a_free_port_can_be_listened_on() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)) as listener:
        assert listener.getsockname()[1] == port
