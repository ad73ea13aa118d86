"""Streams in a data directory: confirmed is there again after SIGKILL, and only once."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel

from tests.server.opened import pika_connection

STREAM: dict[str, object] = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 4000}


class Server:
    """`penstock serve` on one data directory, started again and again."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> BlockingChannel:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "penstock", "serve", "--port", "0", "--data", str(self._data)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
        )
        assert self._process.stdout is not None
        words = self._process.stdout.readline().split()
        assert words[:2] == ["penstock", "ready"], words
        address = dict(word.split("=") for word in words[2:])["amqp"]
        channel = pika_connection(f"amqp://{address}").channel()
        channel.confirm_delivery()
        return channel

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "data")
    yield server
    server.kill()


def publish(channel: BlockingChannel, sequence: int) -> None:
    """Returns when it is confirmed."""
    headers: dict[str, object] = {"x-publisher-id": "p", "x-publisher-sequence": sequence}
    channel.basic_publish("", "s", b"%d" % sequence, BasicProperties(headers=headers))


def read(
    channel: BlockingChannel, count: int, arguments: dict[str, object]
) -> list[tuple[int, bytes]]:
    """So many messages with their offsets, each acknowledged."""
    found: list[tuple[int, bytes]] = []
    channel.basic_qos(prefetch_count=50)
    for method, properties, body in channel.consume("s", arguments=arguments, inactivity_timeout=5):
        assert method is not None, f"only {len(found)} of {count} came"
        found.append((int(properties.headers["x-stream-offset"]), body))
        channel.basic_ack(method.delivery_tag)
        if len(found) == count:
            break
    channel.cancel()
    return found


def test_what_was_confirmed_survives_and_a_retry_lands_once(server: Server) -> None:
    channel = server.start()
    channel.queue_declare("s", durable=True, arguments=STREAM)
    for sequence in range(100):
        publish(channel, sequence)
    server.kill()
    channel = server.start()
    assert channel.queue_declare("s", passive=True).method.message_count == 100
    for sequence in range(95, 105):
        publish(channel, sequence)
    expected = [(offset, b"%d" % offset) for offset in range(105)]
    assert read(channel, 105, {"x-stream-offset": "first"}) == expected


def test_a_cursor_and_a_partitioned_stream_survive(server: Server) -> None:
    channel = server.start()
    channel.queue_declare("s", durable=True, arguments=STREAM)
    channel.exchange_declare(
        "e", "x-partitioned-stream", durable=True, arguments={"x-partitions": 2}
    )
    for sequence in range(10):
        publish(channel, sequence)
        channel.basic_publish("e", f"key-{sequence}", b"")
    cursor: dict[str, object] = {"x-stream-cursor": "app"}
    assert len(read(channel, 4, {**cursor, "x-stream-offset": "first"})) == 4
    # A round trip that is answered when what came before it is safe.
    channel.queue_declare("safe", durable=True)
    server.kill()
    channel = server.start()
    assert read(channel, 1, cursor) == [(4, b"4")]
    counts = [channel.queue_declare(f"e-{n}", passive=True).method.message_count for n in (0, 1)]
    assert sum(counts) == 10
    channel.basic_publish("e", "key-0", b"")
    channel.exchange_delete("e")
    channel.queue_delete("s")
    server.kill()
    server.start()
    assert not list((server._data / "streams").rglob("*.log"))
