import socket
from pathlib import Path

import pytest

from bench.brokers import READY_LINE, RabbitMQ
from bench.running import BrokerUnavailableError, disk_bytes, free_port


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


def test_a_folder_weighs_the_blocks_of_all_files_in_it(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "one").write_bytes(b"x" * 100_000)
    (tmp_path / "deep" / "er" / "two").write_bytes(b"x" * 100_000)
    with (tmp_path / "sparse").open("wb") as sparse:
        sparse.truncate(1 << 30)
    assert 200_000 <= disk_bytes(tmp_path) < 1_000_000
    assert disk_bytes(tmp_path / "absent") == 0
