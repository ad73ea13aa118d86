"""The network as a node sees it: byte streams that others opened, or that it dialled itself.

Invariants: a transport delivers bytes in order or not at all; `write` never blocks; after
`close` or `abort` nothing more is read from it. A `DialListener` is told of the end of its attempt
exactly once, whether it was ever connected or not, and gets no call after that.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Transport(ABC):
    """One byte stream to one peer. Held by the connection that speaks over it."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Queue bytes for the peer; the transport says `writable(False)` when it holds too many."""

    def write_pieces(self, pieces: list[bytes]) -> None:
        """The same as `write` of all of them together; the list belongs to the transport then. For
        long ones, which some transports send without copying them first.
        """
        self.write(b"".join(pieces))

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


@dataclass(frozen=True, slots=True)
class DialAddress:
    """Where to connect to."""

    host: str
    port: int
    is_tls: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"amqps://{host}:{self.port}" if self.is_tls else f"{host}:{self.port}"


@mypyc_attr(allow_interpreted_subclasses=True)
class DialListener(ABC):
    """Hears of one connection that was dialled. Each one is used for one `dial`."""

    @abstractmethod
    def connected(self, transport: Transport, now: int) -> None:
        """The connection exists, with its TLS handshake if there is one."""

    @abstractmethod
    def received(self, data: bytes, now: int) -> None: ...

    @abstractmethod
    def writable(self, is_writable: bool, now: int) -> None:
        """The transport holds more than it can send, or has room again."""

    @abstractmethod
    def lost(self, reason: str, now: int) -> None:
        """The last call: it could not be connected, or the connection has ended. The reason is empty
        for an orderly end.
        """


@mypyc_attr(allow_interpreted_subclasses=True)
class Dialler(ABC):
    """Opens connections to other servers. Implemented by `SocketDialler` in `server` and by
    `HostDialler` in `simulation`.
    """

    @abstractmethod
    def dial(self, address: DialAddress, listener: DialListener) -> None:
        """Returns at once; the listener is called later, never from within this call. An attempt
        ends after a bounded time.
        """
