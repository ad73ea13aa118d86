"""Bytes that wait for a connection's next write.

Seed 002: "All writes to the underlying socket are buffered in the application." Every protocol
connection appends pieces here; the world joins and writes them once per tick.

Invariants: a connection is on its flush list exactly while it holds pieces or is about to close;
pieces leave in the order they came.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.world.network import Transport

# Deliveries for one connection wait for the next tick beyond this many pending bytes. Replies are
# never held back; they are bounded by what the peer may have outstanding.
DELIVERY_BYTES_MAX: Final = 512 * 1024
# Pieces that are so long on average are passed on as they are: handling one costs less then than copying
# it. They are operations that go to other servers, and large messages.
PIECE_BYTES_LONG: Final = 16 * 1024


@mypyc_attr(allow_interpreted_subclasses=True)
class DrainListener:
    """Notified when there is room again: the connection whose consumers were stopped."""

    def drained(self) -> None:
        raise NotImplementedError


class Outgoing:
    """One connection's pending output. Held by the wire connection and by its consumers."""

    def __init__(self, flush_list: list["Outgoing"], transport: Transport) -> None:
        self.flush_list: list[Outgoing] = flush_list
        self.transport: Transport = transport
        self.listener: DrainListener | None = None
        self.pieces: list[bytes] = []
        # Bytes in `pieces`; consumers look at it to stop before it grows without bound.
        self.size: int = 0
        # False while the transport holds more than it can send; deliveries wait, replies do not.
        self.writable: bool = True
        # A consumer found no room; its queue must be dispatched again once there is some.
        self.stalled: bool = False
        self.closing: bool = False
        # A journal position that must be durable before anything leaves; see the node.
        self.durable_at: int = 0
        # Whether it waits for that now: set by the node, which writes nothing then.
        self.is_waiting: bool = False
        # Writes, and octets that left with them.
        self.sent_count: int = 0
        self.sent_bytes: int = 0

    def push(self, piece: bytes) -> None:
        if not self.pieces:
            self.flush_list.append(self)
        self.pieces.append(piece)
        self.size += len(piece)

    def push_ahead(self, piece: bytes) -> None:
        """One whole frame that tells nothing: a heartbeat. It overtakes what waits for the journal,
        because that may take longer than the peer waits for a heartbeat. Everything that was
        written before, and everything that waits, is whole frames.
        """
        if self.is_waiting:
            self.sent_bytes += len(piece)
            self.transport.write(piece)
        else:
            self.push(piece)

    def has_room(self) -> bool:
        """Whether one more delivery may be appended. If not, that is remembered until there is
        room.
        """
        if self.writable and self.size < DELIVERY_BYTES_MAX:
            return True
        self.stalled = True
        return False

    def take(self) -> bytes:
        """Everything pending as one buffer; the caller has removed us from the flush list."""
        pieces = self.pieces
        joined = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self.pieces = []
        self.size = 0
        self.sent_count += 1
        self.sent_bytes += len(joined)
        return joined

    def drop(self) -> None:
        """Forget what is pending: whole frames that must not leave any more, the last ones before a
        close among them.
        """
        if self.pieces:
            # It stays on its list, where an empty one does no harm.
            self.pieces = []
            self.size = 0
        self.durable_at = 0

    def flush(self) -> None:
        """Pass the pending output to the transport; called once per tick by the node."""
        count = len(self.pieces)
        if count > 1 and self.size >= count * PIECE_BYTES_LONG:
            self._write_pieces()
        elif count:
            self.transport.write(self.take())
        if self.closing:
            self.transport.close()
        elif self.stalled and self.writable:
            self._resume()

    def _write_pieces(self) -> None:
        pieces = self.pieces
        self.sent_count += 1
        self.sent_bytes += self.size
        self.pieces = []
        self.size = 0
        self.transport.write_pieces(pieces)

    def set_writable(self, writable: bool) -> None:
        """The transport says whether it can take more."""
        self.writable = writable
        if writable and self.stalled and not self.closing:
            self._resume()

    def _resume(self) -> None:
        self.stalled = False
        if self.listener is not None:
            self.listener.drained()

    def close(self) -> None:
        """Close the transport after what is pending has been written."""
        if not self.closing:
            self.closing = True
            if not self.pieces:
                self.flush_list.append(self)
