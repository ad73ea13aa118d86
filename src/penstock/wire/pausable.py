"""Input that can be stopped between two methods, contents or frames."""


class PausableInput:
    """The common parent of the connections of both wires. The listener sets `must_stop` during a
    call; the wire then keeps the rest of its input, and everything that comes after it, until
    `must_stop` is cleared and `receive` is called again.
    """

    must_stop: bool = False

    def receive(self, data: bytes, now: int) -> None:
        """Any part of what the peer sends."""
        raise NotImplementedError

    def buffered(self) -> int:
        """Octets that are kept between two calls."""
        raise NotImplementedError
