"""What a member of a cluster says of itself, for operators."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """One server as this one sees it."""

    name: str
    address: str
    role: str
    in_sync: bool
    # Behind the root; -1 where it is not known. Only the root knows it of others.
    lag_operations: int
    lag_bytes: int
    is_connected: bool
    may_be_root: bool


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """Of one moment."""

    name: str
    cluster_id: str
    epoch: int
    role: str
    # Its name and address; empty while none is known.
    root: str
    root_address: str
    members: tuple[MemberStatus, ...]
    # The last operation of the epoch that is committed, as far as this server knows; -1 for none.
    committed: int
    # What is left of the root's lease; 0 on other servers.
    lease_ms: int
    expected_root: str
    # Granted, active, known.
    votes: tuple[int, int, int]
    # Why the role changed last, and when, on the node's clock.
    reason: str
    since: int
    # What this server has fetched since its start to be in sync again.
    fetched_bytes: int
