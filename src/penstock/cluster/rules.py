"""Switches of the protocol's rules. In production all are on; a test switches one off to show that
it detects that.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ElectionRules:
    """Held by the election."""

    # R2: only a server in the in-sync set campaigns, gets votes and wins.
    eligibility: bool = True
    # R4: one vote per epoch.
    one_vote: bool = True
    # R5: a majority of the known members elects.
    majority: bool = True
    # R6: the first record of an epoch is committed before anything is completed.
    barrier: bool = True
    # R7: messages of earlier epochs are refused.
    fencing: bool = True
    # R8: while a record is pending, the old and the new in-sync set are waited for.
    both_sets: bool = True
    # R10: a record is committed by a majority of the old and of the new members.
    both_majorities: bool = True
    # R11: the in-sync set is always a majority of the members.
    never_below_half: bool = True
    # R12: only a server that has acknowledged everything committed enters the in-sync set.
    caught_up: bool = True
    # R12, liveness: guards wait for a server that has nearly caught up.
    guard_early: bool = True
    # R14, R3, R4: a root serves under a lease, and nobody elects another one meanwhile.
    lease: bool = True
    # R15: the lease is renewed only while the disk and the event loop make progress.
    progress: bool = True
    # Section 8: what a message promises is durable before it leaves.
    durability: bool = True
    # Section 9: a server counts only with the store id that the record binds to its name.
    store_ids: bool = True


ALL_RULES: Final = ElectionRules()
