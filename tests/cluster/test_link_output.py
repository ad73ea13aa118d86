"""Messages become whole frames, their pieces stay whole where they fit, and what waits is bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.link_output import LinkMessage, LinkOutput
from penstock.formats.amqp091_frames import HEARTBEAT
from penstock.wire.amqp091.methods_generated import ClusterStream
from penstock.wire.outgoing import DELIVERY_BYTES_MAX, DrainListener, Outgoing
from tests.dialects.amqp10.doubles import KeptTransport

CLASS = ClusterStream.CLASS_ID
METHOD = ClusterStream(5).encode()


class Drained(DrainListener):
    def __init__(self, output: LinkOutput) -> None:
        self._output = output

    def drained(self) -> None:
        self._output.pump()


class Scene:
    def __init__(self, frame_max: int = 100, bytes_max: int = 1_000) -> None:
        self.transport = KeptTransport()
        self.flush_list: list[Outgoing] = []
        self.outgoing = Outgoing(self.flush_list, self.transport)
        self.output = LinkOutput(self.outgoing, bytes_max)
        self.output.frame_max = frame_max
        self.outgoing.listener = Drained(self.output)

    def add(self, *pieces: bytes) -> bool:
        return self.output.add(LinkMessage(METHOD, CLASS, list(pieces)))

    def flush(self) -> bytes:
        while self.flush_list:
            self.flush_list.pop().flush()
        return self.transport.take()


def bodies(octets: bytes, frame_max: int) -> list[bytes]:
    """The contents that frames carry; fails for anything that is not whole."""
    found: list[bytearray] = []
    left = 0
    while octets:
        kind, size = octets[0], int.from_bytes(octets[3:7], "big")
        assert size + 8 <= frame_max and octets[7 + size] == 0xCE
        payload = octets[7 : 7 + size]
        if kind == 1:
            assert payload == METHOD and not left
        elif kind == 2:
            left = int.from_bytes(payload[4:12], "big")
            found.append(bytearray())
        elif kind == 3:
            assert 0 < size <= left
            left -= size
            found[-1] += payload
        octets = octets[8 + size :]
    assert not left
    return [bytes(body) for body in found]


@given(
    st.lists(st.lists(st.binary(max_size=300), max_size=6), max_size=6),
    st.integers(64, 200),
)
def test_messages_of_any_pieces_come_out_as_they_went_in(
    messages: list[list[bytes]], frame_max: int
) -> None:
    scene = Scene(frame_max, 1 << 20)
    for pieces in messages:
        assert scene.add(*pieces)
    assert bodies(scene.flush(), frame_max) == [b"".join(pieces) for pieces in messages]
    assert scene.output.unpushed_bytes() == 0


def test_a_piece_that_fits_is_not_copied() -> None:
    scene = Scene(frame_max=10_000)
    long, longer = bytes(4_000), bytes(5_000)
    scene.add(long, longer)
    assert any(piece is long for piece in scene.outgoing.pieces)
    assert any(piece is longer for piece in scene.outgoing.pieces)


def test_a_long_message_leaves_as_there_is_room_with_heartbeats_between_its_frames() -> None:
    scene = Scene(frame_max=100_000)
    body = bytes(range(256)) * 12_000
    scene.add(body)
    assert scene.outgoing.size < DELIVERY_BYTES_MAX + 100_000
    assert scene.output.unpushed_bytes() > 2_000_000
    written = b""
    beats = 0
    while scene.flush_list:
        scene.outgoing.push(HEARTBEAT)
        beats += 1
        scene.flush_list.pop().flush()
        written += scene.transport.take()
    assert beats > 3
    assert bodies(written, 100_000) == [body]


def test_nothing_is_pushed_while_the_transport_is_full() -> None:
    scene = Scene()
    scene.outgoing.set_writable(False)
    scene.add(b"one")
    assert scene.flush() == b""
    scene.outgoing.set_writable(True)
    assert bodies(scene.flush(), 100) == [b"one"]


@pytest.fixture
def full() -> Scene:
    """Nothing leaves, and a message is being sent."""
    scene = Scene()
    scene.outgoing.set_writable(False)
    assert scene.add(bytes(900))
    return scene


def test_what_waits_behind_the_first_message_is_bounded(full: Scene) -> None:
    assert full.add(bytes(600)) and full.add(bytes(400))
    assert not full.add(b"x")
    full.outgoing.set_writable(True)
    assert [len(body) for body in bodies(full.flush(), 100)] == [900, 600, 400]
    assert full.add(bytes(1_000))


def test_one_message_above_the_limit_does_not_count(full: Scene) -> None:
    assert full.add(bytes(5_000))
    assert full.add(bytes(1_000))
    assert not full.add(b"x")
    assert not full.add(bytes(5_000)), "but a second one does"
    full.outgoing.set_writable(True)
    assert [len(body) for body in bodies(full.flush(), 100)] == [900, 5_000, 1_000]
    full.outgoing.set_writable(False)
    assert full.add(b"x") and full.add(bytes(5_000)) and full.add(bytes(1_000))


def test_what_is_cleared_does_not_count(full: Scene) -> None:
    full.add(bytes(1_000))
    full.output.clear()
    assert full.output.unpushed_bytes() == 0
    assert full.add(b"a") and full.add(bytes(1_000))
