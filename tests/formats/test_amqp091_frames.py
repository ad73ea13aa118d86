"""Frames have the bytes that the specification says, and openings are those of whole methods."""

import pytest

from penstock.formats import amqp091_frames as frames
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.amqp091.content import BasicProperties, encode_header


def test_a_frame_has_known_bytes() -> None:
    assert frames.encode_frame(frames.METHOD_FRAME, 258, b"ab") == b"\x01\x01\x02\0\0\0\x02ab\xce"


@pytest.mark.parametrize("body", [b"", b"body"])
def test_a_content_is_its_frames_one_behind_the_other(body: bytes) -> None:
    parts = [(frames.METHOD_FRAME, b"method"), (frames.HEADER_FRAME, b"header")]
    if body:
        parts.append((frames.BODY_FRAME, body))
    expected = b"".join([frames.encode_frame(kind, 3, payload) for kind, payload in parts])
    assert frames.encode_content(3, b"method", b"header", body) == expected


def test_a_large_body_is_split_into_frames_of_the_agreed_size() -> None:
    found = frames.encode_split_content(1, b"m", b"h", b"x" * 25, frame_max=18)
    assert [len(frame) - frames.FRAME_OVERHEAD for frame in found] == [1, 1, 10, 10, 5]


def test_first_and_last_octets_are_those_of_a_frame() -> None:
    for kind, octet in (
        (frames.METHOD_FRAME, frames.METHOD),
        (frames.HEADER_FRAME, frames.HEADER),
        (frames.BODY_FRAME, frames.BODY),
    ):
        frame = frames.encode_frame(kind, 0, b"")
        assert (frame[:1], frame[-1:]) == (octet, frames.END)


def test_the_openings_are_those_of_the_encoded_methods() -> None:
    publish = m.BasicPublish("", "").encode()
    assert publish[:6] == frames.PUBLISH_START
    assert len(publish) - 2 == frames.PUBLISH_FIXED_SIZE
    for method, start in (
        (m.BasicAck(1), frames.ACK_START),
        (m.BasicNack(1), frames.NACK_START),
    ):
        assert frames.encode_frame(1, 1, method.encode())[3:11] == start


def test_a_content_header_begins_with_the_class() -> None:
    header = encode_header(5, BasicProperties())
    assert header[:2] == frames.CLASS_BASIC
    assert header[:4] == frames.CONTENT_HEADER_START
    assert len(header) == frames.CONTENT_HEADER_SIZE_MIN
    assert header[: frames.CONTENT_HEADER_FIXED_SIZE] == b"\x00\x3c\0\0" + bytes(7) + b"\x05"
