"""Clients that misbehave: the broker stays within its bounds and serves the others."""

import os
import random
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pika import spec
from pika.adapters.blocking_connection import BlockingChannel

from penstock import Broker
from penstock.wire.amqp091.limits import Limits
from tests.behaviour.raw import RawConnection
from tests.server.opened import pika_connection
from tests.server.raw_client import HEADER, connect, seconds_until_closed, wait_for

# A machine with many other things to do gets there in the end.
PATIENCE_SECONDS = 60


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_a_client_that_sends_nothing_is_closed_after_the_handshake_time() -> None:
    with Broker(limits=Limits(handshake_ms=300)) as broker:
        assert 0.2 < seconds_until_closed(connect(broker.host, broker.port)) < PATIENCE_SECONDS


def test_a_client_that_stops_in_the_middle_of_the_handshake_is_closed_too() -> None:
    with Broker(limits=Limits(handshake_ms=300)) as broker:
        raw = connect(broker.host, broker.port)
        raw.sendall(HEADER)
        assert 0.2 < seconds_until_closed(raw) < PATIENCE_SECONDS


def test_a_client_that_dribbles_octets_gets_no_more_time() -> None:
    with Broker(limits=Limits(handshake_ms=400)) as broker:
        raw = connect(broker.host, broker.port)
        stop = threading.Event()

        def dribble() -> None:
            for octet in HEADER[:6]:
                if stop.wait(0.1):
                    return
                raw.sendall(bytes([octet]))

        dribbler = threading.Thread(target=dribble)
        dribbler.start()
        assert seconds_until_closed(raw) < PATIENCE_SECONDS
        stop.set()
        dribbler.join()


def test_a_peer_that_misses_its_heartbeats_is_closed() -> None:
    with Broker(limits=Limits(heartbeat_seconds=1)) as broker:
        raw = logged_in(broker, heartbeat=1)
        assert 1.5 < seconds_until_closed(raw) < PATIENCE_SECONDS


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def logged_in(
    broker: Broker, heartbeat: int = 0, receive_buffer: int | None = None
) -> socket.socket:
    """Logged in with one open channel."""
    raw = connect(broker.host, broker.port, receive_buffer)
    response = b"\x00guest\x00guest"
    start_ok = b"\x00\x0a\x00\x0b\x00\x00\x00\x00\x05PLAIN" + struct.pack(">I", len(response))
    raw.sendall(HEADER)
    expect(raw, b"\x00\x0a\x00\x0a")
    raw.sendall(frame(1, 0, start_ok + response + b"\x05en_US"))
    expect(raw, b"\x00\x0a\x00\x1e")
    tune_ok = b"\x00\x0a\x00\x1f" + struct.pack(">HIH", 2047, 131072, heartbeat)
    raw.sendall(frame(1, 0, tune_ok))
    raw.sendall(frame(1, 0, b"\x00\x0a\x00\x28\x01/\x00\x00"))
    expect(raw, b"\x00\x0a\x00\x29")
    raw.sendall(frame(1, 1, b"\x00\x14\x00\x0a\x00"))
    expect(raw, b"\x00\x14\x00\x0b")
    return raw


def expect(raw: socket.socket, method: bytes) -> None:
    """Read one method frame."""
    head = raw.recv(7, socket.MSG_WAITALL)
    payload = raw.recv(int.from_bytes(head[3:7], "big") + 1, socket.MSG_WAITALL)
    assert payload.startswith(method), payload


def test_a_consumer_that_does_not_read_costs_no_more_than_its_buffers() -> None:
    with Broker() as broker:
        channel = pika_connection(broker.url).channel()
        channel.confirm_delivery()
        channel.queue_declare("slow")
        raw = logged_in(broker, receive_buffer=4096)
        consume = b"\x00\x3c\x00\x14\x00\x00\x04slow\x01t\x02\x00\x00\x00\x00"
        raw.sendall(frame(1, 1, consume))
        body = b"x" * 100_000
        count = 300
        for _ in range(count):
            channel.basic_publish("", "slow", body)
        # 30 MB were published; what left the queue sits in buffers of known size.
        waiting = broker.queue_depths()["slow"]
        taken_bytes = (count - waiting) * len(body)
        assert waiting > 0
        assert taken_bytes < 16 * 1024 * 1024
        raw.close()


def test_a_client_that_asks_and_never_reads_is_cut_off() -> None:
    """Replies are never held back, so what a peer may let pile up is bounded by ending it."""
    with Broker() as broker:
        raw = logged_in(broker, receive_buffer=4096)
        body = b"y" * 100_000
        channel = pika_connection(broker.url).channel()
        channel.queue_declare("big")
        for _ in range(900):
            channel.basic_publish("", "big", body)
        wait_for(lambda: broker.queue_depths()["big"] == 900)
        get = frame(1, 1, b"\x00\x3c\x00\x46\x00\x00\x03big\x00")
        raw.settimeout(5)
        try:
            raw.sendall(get * 900)
        except OSError:
            pass
        wait_for(lambda: broker.connection_count == 1)
        # Nothing was acknowledged, so nothing is lost.
        wait_for(lambda: broker.queue_depths()["big"] == 900)
        raw.close()


@pytest.mark.parametrize("seed", range(4))
def test_garbage_on_many_connections_leaves_a_working_client_alone(seed: int) -> None:
    dice = random.Random(seed)
    with Broker() as broker:
        channel = pika_connection(broker.url).channel()
        channel.confirm_delivery()
        channel.queue_declare("q")
        for round_number in range(40):
            raw = logged_in(broker) if dice.random() < 0.5 else connect(broker.host, broker.port)
            kind = dice.choice([0, 1, 2, 3, 8, 65, 255])
            payload = dice.randbytes(dice.randrange(200))
            try:
                raw.sendall(dice.choice([dice.randbytes(300), frame(kind, 1, payload)]))
            except OSError:
                pass
            raw.close()
            channel.basic_publish("", "q", b"still here %d" % round_number)
        assert broker.queue_depths()["q"] == 40
        wait_for(lambda: broker.connection_count == 1)


def test_a_body_announced_and_never_sent_costs_nothing() -> None:
    with Broker() as broker:
        before = resident_bytes()
        sockets = []
        publish = b"\x00\x3c\x00\x28\x00\x00\x00\x01q\x00"
        header = b"\x00\x3c\x00\x00" + struct.pack(">Q", 100_000_000) + b"\x00\x00"
        for _ in range(50):
            raw = logged_in(broker)
            raw.sendall(frame(1, 1, publish) + frame(2, 1, header) + frame(3, 1, b"z" * 1000))
            sockets.append(raw)
        wait_for(lambda: broker.connection_count == 50)
        assert resident_bytes() - before < 64 * 1024 * 1024
        for raw in sockets:
            raw.close()


def test_connections_above_the_limit_are_refused_and_the_others_stay() -> None:
    with Broker(connections_max=3) as broker:
        kept = [logged_in(broker) for _ in range(3)]
        wait_for(lambda: broker.connection_count == 3)
        assert seconds_until_closed(connect(broker.host, broker.port)) < PATIENCE_SECONDS
        assert broker.connection_count == 3
        for raw in kept:
            raw.close()


def consume_two(broker: Broker) -> RawConnection:
    """A client that holds one message on each of two channels, with consumers on two queues."""
    consumer = RawConnection(broker.host, broker.port).open("guest", "guest", "/")
    for channel, queue in ((1, "one"), (2, "two")):
        consumer.open_channel(channel)
        consumer.call(channel, spec.Basic.Qos(prefetch_count=1), spec.Basic.QosOk)
        consumer.call(channel, spec.Basic.Consume(queue=queue), spec.Basic.ConsumeOk)
        consumer.expect(spec.Basic.Deliver, channel)
        consumer.read_frame()
        consumer.read_frame()
    return consumer


def abort(consumer: RawConnection) -> None:
    """The peer hears nothing but a reset."""
    consumer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    consumer.socket.close()


def close_channels(consumer: RawConnection) -> None:
    for channel in (1, 2):
        consumer.call(channel, spec.Channel.Close(200, "", 0, 0), spec.Channel.CloseOk)


def break_channels(consumer: RawConnection) -> None:
    for channel in (1, 2):
        consumer.call(channel, spec.Basic.Ack(99), spec.Channel.Close)


def leave(consumer: RawConnection) -> None:
    consumer.call(0, spec.Connection.Close(200, "", 0, 0), spec.Connection.CloseOk)


@pytest.mark.parametrize("end", [abort, close_channels, break_channels, leave])
def test_the_consumers_of_a_client_that_ends_go_and_others_get_its_messages(
    end: Callable[[RawConnection], None],
) -> None:
    with Broker() as broker:
        channel = pika_connection(broker.url).channel()
        for queue in ("one", "two"):
            channel.queue_declare(queue)
            channel.basic_publish("", queue, b"first")
            channel.basic_publish("", queue, b"second")
        with consume_two(broker) as consumer:
            assert consumer_counts(channel) == [1, 1]
            end(consumer)
            wait_for(lambda: consumer_counts(channel) == [0, 0])
            for queue in ("one", "two"):
                got: list[tuple[bytes, bool]] = []
                for method, _, body in channel.consume(queue, inactivity_timeout=PATIENCE_SECONDS):
                    assert method is not None, "it waits for somebody who has left"
                    got.append((body, method.redelivered))
                    if len(got) == 2:
                        break
                channel.cancel()
                assert got == [(b"first", True), (b"second", False)]


def consumer_counts(channel: BlockingChannel) -> list[int]:
    found = [channel.queue_declare(queue, passive=True) for queue in ("one", "two")]
    return [declared.method.consumer_count for declared in found]
