"""The switches of all rules: those of replication, of the election, and of delivery."""

from dataclasses import fields, replace

from penstock.cluster.rules import ElectionRules
from penstock.ha.rules import HaRules


class ProtocolRules:
    """Held by a run; all on, except for the one that is named."""

    def __init__(self, off: str = "") -> None:
        self.are_all_on: bool = not off
        self.ha: HaRules = HaRules()
        self.election: ElectionRules = ElectionRules()
        # R16: only committed messages are delivered, and inherited ones are flagged.
        self.deliver_committed: bool = True
        self.flag_inherited: bool = True
        if not off:
            return
        owner, _, name = off.rpartition(".")
        if owner == "ha":
            assert getattr(self.ha, name)
            setattr(self.ha, name, False)
        elif owner == "cluster":
            assert name in [field.name for field in fields(self.election)]
            self.election = replace(self.election, **{name: False})
        else:
            assert getattr(self, name)
            setattr(self, name, False)
