"""What a node must know to be a member of a cluster."""

import hashlib
from dataclasses import dataclass, field

from penstock.broker.replication_level import ReplicationLevel
from penstock.cluster.links import LinkSettings
from penstock.cluster.rules import ALL_RULES, ElectionRules
from penstock.cluster.timing import Timing
from penstock.ha.limits import DEFAULT_LIMITS, HaLimits
from penstock.ha.rules import ALL_RULES as ALL_HA_RULES
from penstock.ha.rules import HaRules


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Of one server. Everything but `name` must be the same on all members."""

    name: str
    # What members prove to one another that they have. It is never sent.
    key: bytes
    # Of settings that change what is decided; members with another digest are refused.
    digest: str = ""
    # The level of what is declared without one.
    replicate: ReplicationLevel = ReplicationLevel.ALL
    timing: Timing = field(default_factory=Timing)
    links: LinkSettings = field(default_factory=LinkSettings)
    limits: HaLimits = DEFAULT_LIMITS
    # Simulations switch rules off to show that each is needed.
    election_rules: ElectionRules = ALL_RULES
    ha_rules: HaRules = ALL_HA_RULES

    @property
    def key_digest(self) -> str:
        """What clients may present: the SHA-256 of the key in hexadecimal."""
        return hashlib.sha256(self.key).hexdigest()
