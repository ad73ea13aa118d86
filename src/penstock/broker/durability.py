"""How far the journal was written, and how far it is durable. Confirms and replies wait for it."""


class Durability:
    """Held by the node, which alone changes it, and read by whoever waits. Without a journal both
    positions stay zero and nobody waits.
    """

    def __init__(self) -> None:
        # Behind what the last tick wrote, and behind what survives a power loss.
        self.written: int = 0
        self.durable: int = 0
        # Behind the last tick that wrote definitions, and how many changes were written by then.
        self.definitions: int = 0
        self.definition_count: int = 0
