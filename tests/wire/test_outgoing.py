"""What waits for a connection's next write, and how it leaves."""

import pytest

from penstock.wire.outgoing import PIECE_BYTES_LONG, Outgoing
from tests.dialects.amqp091.doubles import RecordingTransport
from tests.wire.doubles import KeptTransport


class PieceTransport(KeptTransport):
    """Keeps pieces as they come."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []

    def write_pieces(self, pieces: list[bytes]) -> None:
        self.pieces.extend(pieces)


def flushed(transport: KeptTransport, pieces: list[bytes]) -> Outgoing:
    outgoing = Outgoing([], transport)
    for piece in pieces:
        outgoing.push(piece)
    outgoing.flush()
    return outgoing


def test_long_pieces_leave_as_they_are() -> None:
    transport = PieceTransport()
    long = bytes(3 * PIECE_BYTES_LONG)
    outgoing = flushed(transport, [b"head", long, b"end"])
    assert transport.written == b""
    assert transport.pieces[1] is long
    assert b"".join(transport.pieces) == b"head" + long + b"end"
    assert (outgoing.pieces, outgoing.size) == ([], 0)
    assert (outgoing.sent_count, outgoing.sent_bytes) == (1, len(long) + 7)


@pytest.mark.parametrize(
    "pieces", [[b"head", b"body", b"end"], [bytes(PIECE_BYTES_LONG), b"end"], [bytes(100_000)]]
)
def test_short_pieces_and_a_single_one_leave_as_one(pieces: list[bytes]) -> None:
    transport = PieceTransport()
    outgoing = flushed(transport, pieces)
    assert transport.pieces == []
    assert transport.written == b"".join(pieces)
    assert (outgoing.sent_count, outgoing.sent_bytes) == (1, len(transport.written))


def test_a_transport_that_takes_no_pieces_gets_them_joined() -> None:
    transport = KeptTransport()
    flushed(transport, [b"head", bytes(3 * PIECE_BYTES_LONG), b"end"])
    assert transport.written == b"head" + bytes(3 * PIECE_BYTES_LONG) + b"end"


def test_dropped_output_does_not_leave_even_if_the_connection_is_about_to_close() -> None:
    transport = RecordingTransport()
    outgoing = Outgoing([], transport)
    outgoing.push(b"a confirm that waits for its commit")
    outgoing.durable_at = 7
    outgoing.close()
    outgoing.drop()
    outgoing.flush()
    assert transport.written == b""
    assert transport.closed
