"""Who is at the other end of a connection."""

from penstock.dialects.encryption import Encryption
from penstock.dialects.mechanisms import ALL_MECHANISMS
from penstock.wire.outgoing import Outgoing


class Peer:
    """Held by everything that belongs to one connection, whatever it speaks."""

    def __init__(
        self, number: int, host: str, port: int, is_loopback: bool, outgoing: Outgoing
    ) -> None:
        # Of the connection; no other one of this node has it.
        self.number: int = number
        self.host: str = host
        # 0 where peers have no port.
        self.port: int = port
        self.is_loopback: bool = is_loopback
        self.outgoing: Outgoing = outgoing
        # Where it has connected to; empty and 0 where that is not an address.
        self.local_host: str = ""
        self.local_port: int = 0
        # None in the clear. An AMQP 1.0 client may begin TLS after it has connected, before it
        # logs in.
        self.encryption: Encryption | None = None
        # It came when all places of clients were taken: only a server of the cluster may log in.
        self.is_surplus: bool = False
        # What the listener that it came through offers.
        self.mechanisms: tuple[str, ...] = ALL_MECHANISMS

    @property
    def certificate_name(self) -> str:
        """Whom the client's verified certificate names: the user of an EXTERNAL login. Empty
        without one.
        """
        return "" if self.encryption is None else self.encryption.certificate_name
