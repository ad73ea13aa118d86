"""The network as a node sees it: byte streams that the server opened.

Invariants: a transport delivers bytes in order or not at all; `write` never blocks; after
`close` or `abort` nothing more is read from it.
"""

from abc import ABC, abstractmethod

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Transport(ABC):
    """One byte stream to one peer. Held by the connection that speaks over it."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Queue bytes for the peer; the transport says `writable(False)` when it holds too many."""

    @abstractmethod
    def close(self) -> None:
        """Close once everything written has left."""

    @abstractmethod
    def abort(self) -> None:
        """Close at once and drop what has not left."""

    def unsent_bytes(self) -> int:
        """Bytes that were written and not sent yet; 0 if they are not counted."""
        return 0

    def unheard_bytes(self) -> int:
        """Bytes that were received but not read and that it holds itself; 0 if the kernel does."""
        return 0

    def has_hung_up(self) -> bool:
        """Whether the peer will send no more than what has arrived, as far as can be told without
        reading it.
        """
        return False

    def can_start_tls(self) -> bool:
        """Whether `start_tls` may be called: TLS is configured and has not begun."""
        return False

    def start_tls(self, first: bytes) -> None:
        """The peer speaks TLS from now on; `first` is what it has said of that already. Nothing is
        heard before the handshake is over, and nothing must be written.
        """
        raise NotImplementedError

    @abstractmethod
    def pause_reading(self) -> None:
        """Stop reading: the peer feels it as TCP back-pressure."""

    @abstractmethod
    def resume_reading(self) -> None:
        """Undo `pause_reading`."""
