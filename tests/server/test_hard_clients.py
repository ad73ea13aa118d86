"""Clients that misbehave: the broker stays within its bounds and serves the others."""

import os
import random
import socket
import struct
import threading
from pathlib import Path

import pytest

from penstock import Broker
from penstock.wire.amqp091.limits import Limits
from tests.server.opened import pika_connection
from tests.server.raw_client import HEADER, connect, seconds_until_closed, wait_for


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_a_client_that_sends_nothing_is_closed_after_the_handshake_time() -> None:
    with Broker(limits=Limits(handshake_ms=300)) as broker:
        assert 0.2 < seconds_until_closed(connect(broker.host, broker.port)) < 5


def test_a_client_that_stops_in_the_middle_of_the_handshake_is_closed_too() -> None:
    with Broker(limits=Limits(handshake_ms=300)) as broker:
        raw = connect(broker.host, broker.port)
        raw.sendall(HEADER)
        assert 0.2 < seconds_until_closed(raw) < 5


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
        assert seconds_until_closed(raw) < 5
        stop.set()
        dribbler.join()


def test_a_peer_that_misses_its_heartbeats_is_closed() -> None:
    with Broker(limits=Limits(heartbeat_seconds=1)) as broker:
        raw = logged_in(broker, heartbeat=1)
        assert 1.5 < seconds_until_closed(raw) < 8


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
        assert seconds_until_closed(connect(broker.host, broker.port)) < 5
        assert broker.connection_count == 3
        for raw in kept:
            raw.close()
