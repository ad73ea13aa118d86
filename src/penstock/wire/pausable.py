"""Input that can be stopped between two methods, contents or frames."""


class PausableInput:
    """What the connections of both wires are. Whoever listens sets `must_stop` while it hears
    something; the wire then keeps the rest of what it was given, and everything that comes after
    it, until `must_stop` is taken back and `receive` is called again.
    """

    must_stop: bool = False
