"""Header values that need a type of their own on the wire, independent of the protocol."""


class Timestamp:
    """Whole seconds since 1970."""

    def __init__(self, seconds: int) -> None:
        self.seconds: int = seconds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.seconds == other.seconds

    def __hash__(self) -> int:
        return hash(self.seconds)

    def __repr__(self) -> str:
        return f"Timestamp({self.seconds})"


class Long:
    """An integer that clients expect in 64 bits, however small it is (counts in `x-death`)."""

    def __init__(self, value: int) -> None:
        self.value: int = value
