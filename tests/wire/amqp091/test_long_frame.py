"""Frames that come in many reads: every split gives the same content, and each is kept within limits."""

import tracemalloc
from random import Random

import pytest

from penstock.formats.amqp091_frames import (
    BODY_FRAME,
    FRAME_HEAD_SIZE,
    HEADER_FRAME,
    METHOD_FRAME,
    encode_content,
    encode_frame,
)
from penstock.wire.amqp091.content import BasicProperties, encode_header
from penstock.wire.amqp091.limits import Limits
from penstock.wire.amqp091.long_frame import LONG_FRAME_SIZE, LongFrame
from penstock.wire.amqp091.methods_generated import BasicPublish
from tests.wire.doubles import Machine, open_server

PUBLISH = BasicPublish("amq.direct", "key").encode()
LIMITS = Limits(frame_max=1024 * 1024)
SMALL = encode_content(1, PUBLISH, encode_header(5, BasicProperties()), b"hello")


def long_body(size: int, seed: int = 1) -> bytes:
    return Random(seed).randbytes(size)


def begun(size: int) -> Machine:
    """A connection that has received all of a long content but its body frame."""
    machine = open_server(LIMITS)
    machine.connection.frame_max = LIMITS.frame_max
    header = encode_header(size, BasicProperties())
    machine.receive(encode_frame(METHOD_FRAME, 1, PUBLISH) + encode_frame(HEADER_FRAME, 1, header))
    return machine


def contents(machine: Machine) -> list[bytes]:
    return [call[-1] for call in machine.listener.named("content")]  # type: ignore[misc]


@pytest.mark.parametrize("seed", range(20))
def test_a_long_frame_may_come_in_any_pieces(seed: int) -> None:
    random = Random(seed)
    size = random.randint(LONG_FRAME_SIZE, 300_000)
    body = long_body(size, seed)
    data = encode_frame(BODY_FRAME, 1, body) + SMALL
    machine = begun(size)
    at = 0
    while at < len(data):
        step = random.choice([1, 3, 100, 5_000, 60_000, 200_000])
        machine.receive(data[at : at + step])
        at += step
    assert contents(machine) == [body, b"hello"]
    assert machine.connection.buffered() == 0


@pytest.mark.parametrize("cut", [FRAME_HEAD_SIZE, FRAME_HEAD_SIZE + 1, -2, -1])
def test_a_long_frame_may_be_cut_at_its_ends(cut: int) -> None:
    body = long_body(LONG_FRAME_SIZE)
    data = encode_frame(BODY_FRAME, 1, body)
    machine = begun(len(body))
    machine.receive(data[:cut])
    assert not contents(machine)
    machine.receive(data[cut:] + SMALL)
    assert contents(machine) == [body, b"hello"]


def test_what_has_come_of_a_long_frame_counts_as_buffered() -> None:
    data = encode_frame(BODY_FRAME, 1, long_body(100_000))
    machine = begun(100_000)
    before = machine.connection.buffered()
    machine.receive(data[:60_000])
    machine.receive(data[60_000:60_010])
    assert machine.connection.buffered() - before == 60_010


def test_a_long_frame_without_its_frame_end_is_refused() -> None:
    data = encode_frame(BODY_FRAME, 1, long_body(100_000))
    machine = begun(100_000)
    machine.receive(data[:50_000])
    machine.receive(data[50_000:-1] + b"\x00" + SMALL)
    assert not contents(machine)
    assert "frame-end octet expected, got 0" in str(machine.listener.named("connection_ended"))


def test_a_frame_that_is_too_long_is_refused_before_it_is_kept() -> None:
    machine = begun(LIMITS.frame_max + 1)
    machine.receive(encode_frame(BODY_FRAME, 1, bytes(LIMITS.frame_max + 1))[:100])
    assert "is larger than" in str(machine.listener.named("connection_ended"))


@pytest.mark.parametrize("is_rest_late", [False, True])
def test_a_long_frame_waits_while_the_listener_has_said_to_stop(*, is_rest_late: bool) -> None:
    body = long_body(100_000)
    data = encode_frame(BODY_FRAME, 1, body) + SMALL
    machine = begun(len(body))
    machine.receive(data[:70_000])
    machine.connection.must_stop = True
    machine.receive(data[70_000:80_000] if is_rest_late else data[70_000:])
    assert not contents(machine)
    machine.connection.must_stop = False
    machine.receive(data[80_000:] if is_rest_late else b"")
    assert contents(machine) == [body, b"hello"]


def test_nothing_is_left_of_a_long_frame_after_a_fault_in_the_framing() -> None:
    machine = begun(100_000)
    machine.receive(encode_frame(BODY_FRAME, 1, bytes(100_000))[:90_000])
    machine.receive(bytes(100_000))
    assert machine.listener.named("connection_ended")
    assert machine.connection.buffered() == 0


def test_fragments_of_one_octet_do_not_cost_many_for_each() -> None:
    size = 100_000
    frame = LongFrame(bytes(FRAME_HEAD_SIZE), 0, size)
    tracemalloc.start()
    for _ in range(size):
        frame.add(b"x")
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 2 * size
    assert frame.payload(b"\xce") == b"x" * size
