"""The HTTP client against a real broker, without Spark."""

from __future__ import annotations

import pickle
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from penstock.spark.address import BrokerAccess, TlsFiles, read_access
from penstock.spark.broker_streams import (
    Subscription,
    move_cursor,
    offset_at,
    segment_path,
    segment_tag,
    segments_of,
)
from penstock.spark.errors import BrokerRefused, BrokerUnreachable, OptionError
from penstock.spark.http_client import BrokerClient, client_for
from tests.spark.broker_process import BrokerProcess
from tests.spark.published import declare_stream, publish_numbers


def access(uri: str, seconds: float = 5.0) -> BrokerAccess:
    return read_access(uri, None, None, TlsFiles(), seconds)


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[BrokerClient]:
    made = BrokerClient(access(broker.uri))
    yield made
    made.close()


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


def test_a_dead_address_is_passed_over(broker: BrokerProcess, name: str) -> None:
    declare_stream(broker, name)
    client = BrokerClient(access(f"http://127.0.0.1:{closed_port()}/,{broker.uri}"))
    assert list(Subscription((name,)).resolve(client)) == [name]
    client.close()


def test_nobody_there_is_said_after_the_time_that_was_given() -> None:
    client = BrokerClient(access(f"http://127.0.0.1:{closed_port()}/", 0.3))
    begun = time.monotonic()
    with pytest.raises(BrokerUnreachable, match=r"within 0\.3 seconds"):
        client.ask("GET", "/")
    assert time.monotonic() - begun < 5


def test_an_answer_that_breaks_off_is_asked_for_again() -> None:
    """A server that closes in the middle of its first answer."""
    octets = b"0123456789"
    head = b"HTTP/1.1 206 Partial Content\r\nContent-Length: 10\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            for answer in (head + octets[:4], head + octets):
                line, _ = listening.accept()
                with line:
                    line.recv(65_536)
                    line.sendall(answer)

        server = threading.Thread(target=serve)
        server.start()
        client = BrokerClient(access(f"http://127.0.0.1:{listening.getsockname()[1]}/"))
        assert client.read_range("/file", 0, 10, "tag") == octets
        client.close()
        server.join()


def test_a_range_that_breaks_off_goes_on_behind_what_was_read() -> None:
    head = b"HTTP/1.1 206 Partial Content\r\nContent-Length: %d\r\n\r\n"
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            for answer in (head % 10 + b"01234", head % 6 + b"456789"):
                line, _ = listening.accept()
                with line:
                    asked.append(line.recv(65_536))
                    line.sendall(answer)

        server = threading.Thread(target=serve)
        server.start()
        client = BrokerClient(access(f"http://127.0.0.1:{listening.getsockname()[1]}/"))
        found = bytearray(10)
        with client.open_range("/file", 100, 10, "tag") as reading:
            for start, end in ((0, 2), (2, 4), (4, 9), (9, 10)):
                reading.fill(memoryview(found)[start:end])
        client.close()
        server.join()
    assert found == b"0123456789"
    assert [b"bytes=100-109" in asked[0], b"bytes=104-109" in asked[1]] == [True, True]


def test_the_rest_of_a_range_that_nobody_wants_does_not_answer_the_next_request(
    broker: BrokerProcess, client: BrokerClient, name: str
) -> None:
    declare_stream(broker, name)
    publish_numbers(broker, name, 0, 5_000)
    stream = Subscription((name,)).resolve(client)[name]
    path, tag = segment_path(client, name, 0, "log"), segment_tag(stream.identity, 0, "log")
    magic = bytearray(8)
    with client.open_range(path, 0, 100_000, tag) as reading:
        reading.fill(memoryview(magic))
    assert magic == b"PENSTLOG"
    assert list(Subscription((name,)).resolve(client)) == [name]


def test_a_connection_that_was_closed_meanwhile_is_opened_again_at_once() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            for _ in range(2):
                line, _ = listening.accept()
                with line:
                    line.recv(65_536)
                    line.sendall(answer)

        server = threading.Thread(target=serve)
        server.start()
        # Without any patience for failures.
        client = BrokerClient(access(f"http://127.0.0.1:{listening.getsockname()[1]}/", 0.0))
        assert client.get_json("/") == client.get_json("/") == {}
        client.close()
        server.join()


def test_a_refusal_is_told_with_the_brokers_reason(client: BrokerClient) -> None:
    with pytest.raises(BrokerRefused, match="no stream") as caught:
        client.get_json(client.path("streams", "/", "nothing"))
    assert caught.value.status == 404
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(OptionError, match="Declare it first"):
        Subscription(("nothing",)).resolve(client)


def test_segments_are_read_by_range_and_only_under_their_name(
    broker: BrokerProcess, client: BrokerClient, name: str
) -> None:
    declare_stream(broker, name, stream_max_segment_size_bytes=5_000)
    for start in range(0, 500, 100):
        publish_numbers(broker, name, start, start + 100)
    stream = Subscription((name,)).resolve(client)[name]
    assert (stream.first, stream.end) == (0, 500)
    segments = segments_of(client, stream, 0, 500)
    assert len(segments) > 1
    assert [segment.end for segment in segments[:-1]] == [segment.first for segment in segments[1:]]
    assert segments_of(client, stream, segments[1].first, segments[1].first + 1) == [segments[1]]
    path = segment_path(client, name, 0, "log")
    assert client.read_range(path, 0, 8, segment_tag(stream.identity, 0, "log")) == b"PENSTLOG"
    with pytest.raises(BrokerRefused) as caught:
        client.read_range(path, 0, 8, segment_tag("another", 0, "log"))
    assert caught.value.status == 412
    assert offset_at(client, stream, 0) == 0
    assert offset_at(client, stream, 2**62) == 500
    move_cursor(client, name, "mine", 17)
    assert client.get_json(client.path("streams", "/", name, "cursors", "mine"))["offset"] == 17


def test_a_thread_keeps_one_client_for_each_broker(broker: BrokerProcess) -> None:
    mine = access(broker.uri)
    assert client_for(mine) is client_for(pickle.loads(pickle.dumps(mine)))
    assert client_for(access(broker.uri, 6.0)) is not client_for(mine)
    others: list[BrokerClient] = []
    thread = threading.Thread(target=lambda: others.append(client_for(mine)))
    thread.start()
    thread.join()
    assert others[0] is not client_for(mine)
