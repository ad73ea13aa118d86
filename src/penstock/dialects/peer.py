"""Who is at the other end of a connection."""

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
