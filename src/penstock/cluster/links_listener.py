"""What peer links tell the node."""

from abc import ABC, abstractmethod

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class PeerLine(ABC):
    """One connection to a peer, in either direction, over which messages can be sent.

    A link that we dialled carries control messages, JOIN and ACK from us; the peer's SYNC, RESUME,
    PIECE and OP come back on it. A link that the peer dialled is the reverse.
    """

    @abstractmethod
    def send(self, kind: int, pieces: list[bytes]) -> None:
        """Queue one message, which is the joined pieces. On a line that has ended it does nothing."""

    @abstractmethod
    def unsent_bytes(self) -> int:
        """Bytes that have not left this process yet."""

    @abstractmethod
    def end(self, reason: str) -> None:
        """Close the connection. Nothing that arrives on it later is passed on. The listener is told
        as of any other end. A line that we dialled is dialled again.
        """


@mypyc_attr(allow_interpreted_subclasses=True)
class LinksListener(ABC):
    """Implemented by the node. All calls are about members by their names; `PeerLinks` makes each of
    `link_down` and `backup_line_lost` exactly once for each `link_up` and `backup_line`.
    """

    @abstractmethod
    def received(self, name: str, store_id: bytes, kind: int, octets: bytes, now: int) -> None:
        """A whole message, from either of the two links of this peer. Raises `BadPeerMessage` for
        one that is not valid: the link is closed with that reason.
        """

    @abstractmethod
    def link_up(self, name: str, now: int) -> None:
        """Our own link to this peer is open: `PeerLinks.send` reaches it."""

    @abstractmethod
    def link_down(self, name: str, now: int) -> None: ...

    @abstractmethod
    def backup_line(self, name: str, line: PeerLine, now: int) -> None:
        """The peer's link to us is open. A newer one of the same peer comes after
        `backup_line_lost` of the older one.
        """

    @abstractmethod
    def backup_line_lost(self, name: str, now: int) -> None: ...
