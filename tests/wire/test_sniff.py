"""The first octets of a connection tell who is knocking, as early as possible."""

import pytest

from penstock.wire.sniff import Announced, sniff

WHOLE = {
    b"AMQP\x00\x00\x09\x01": Announced.AMQP_0_9_1,
    b"AMQP\x00\x01\x00\x00": Announced.AMQP_1_0,
    b"AMQP\x02\x01\x00\x00": Announced.AMQP_1_0_TLS,
    b"AMQP\x03\x01\x00\x00": Announced.AMQP_1_0_SASL,
    b"AMQP\x01\x01\x00\x09": Announced.OTHER_AMQP,
    b"AMQP\x01\x01\x08\x00": Announced.OTHER_AMQP,
    b"AMQP\x00\x00\x0a\x00": Announced.OTHER_AMQP,
    b"\x16\x03\x01\x02\x00\x01\x00\x01": Announced.TLS,
    b"GET / HTTP/1.1\r\n": Announced.HTTP,
    b"OPTIONS * HTTP/1.1\r\n": Announced.HTTP,
    b"\x00\x00\x00\x00\x00\x00\x00\x00": Announced.UNKNOWN,
    b"AMQX\x00\x00\x09\x01": Announced.UNKNOWN,
    b"\x16\x04": Announced.UNKNOWN,
    b"GETTING": Announced.UNKNOWN,
}


@pytest.mark.parametrize("data", WHOLE)
def test_a_whole_header_is_recognised_and_what_follows_does_not_matter(data: bytes) -> None:
    assert sniff(data) is WHOLE[data]
    if len(data) >= 8:
        assert sniff(data + b"more") is WHOLE[data]


@pytest.mark.parametrize("data", WHOLE)
def test_no_prefix_is_taken_for_something_else(data: bytes) -> None:
    for size in range(len(data)):
        assert sniff(data[:size]) in {Announced.UNDECIDED, WHOLE[data]}


@pytest.mark.parametrize("first", [octet for octet in range(256) if octet not in b"A\x16GHPDOCT"])
def test_a_wrong_first_octet_decides(first: int) -> None:
    assert sniff(bytes((first,))) is Announced.UNKNOWN
