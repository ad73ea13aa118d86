"""How many messages were published to one exchange with one routing key, since somebody asked."""


class RouteCount:
    """Held by what dialects keep of a target, who add to it, and by the ledger, which gave it to
    them and reads it.
    """

    def __init__(self, text: bytes) -> None:
        self.count: int = 0
        # What the ledger calls it, and the number of that name in which of its files.
        self.text: bytes = text
        self.name: int = 0
        self.file: int = -1
