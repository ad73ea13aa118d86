"""One switch for each rule of the replication protocol that this room must keep.

All are on in production. A simulation switches one off at a time and must then find a lost message,
a message that came back, half of an operation, or a cluster that stands still.
"""


class HaRules:
    """Held by a `Primary` and a `Backup`."""

    def __init__(self) -> None:
        # R9: a position is committed when everybody in the in-sync set has acknowledged it.
        self.all_acknowledge: bool = True
        # Section 8: and when it is in the primary's own journal, durably.
        self.own_flush: bool = True
        # Section 8: a backup acknowledges what is durable.
        self.durable: bool = True
        # R9: acknowledgements count only in their own epoch.
        self.present_epoch: bool = True
        # S2: a backup takes only the answer to its present JOIN.
        self.present_join: bool = True
        # S4: a SYNC is prepared beside the state.
        self.stage: bool = True
        # S5: what is dequeued during a SYNC is not missing any more.
        self.cancel: bool = True
        # S7: nothing is acknowledged for part of a SYNC.
        self.whole: bool = True
        # S7: surplus leaves in the record that ends the SYNC.
        self.erase: bool = True


# Nobody changes it.
ALL_RULES = HaRules()
