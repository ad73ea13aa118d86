"""What this server is and knows in the election: its role, its root, its promises.

Only here are the root and the role changed. See `election` for the whole.
"""

from typing import Final

from penstock.cluster.campaign import Campaign
from penstock.cluster.in_sync_set import NEVER
from penstock.cluster.member import Member
from penstock.cluster.messages import VIEW
from penstock.cluster.outbox import Outbox
from penstock.cluster.owner_events import (
    IN_SYNC_CHANGED,
    ROLE_CHANGED,
    STEPPED_DOWN,
    OwnerEvents,
)
from penstock.cluster.promises import Promises, PromisesListener
from penstock.cluster.record import ClusterRecord
from penstock.cluster.root_role import RootRole
from penstock.cluster.rules import ALL_RULES, ElectionRules
from penstock.cluster.surroundings import BackupProgress, ElectionListener, PeerLines
from penstock.cluster.timing import Timing
from penstock.world.entropy import Entropy

# Later than any time.
NO_LIMIT: Final = 1 << 61
JOINING: Final = "joining"
CATCHUP: Final = "catchup"
READY: Final = "ready"
CANDIDATE: Final = "candidate"
RECOVERING: Final = "recovering"
ACTIVE: Final = "active"


class Standing(PromisesListener):
    """The part of an election that others ask."""

    def __init__(
        self,
        own_name: str,
        promises: Promises,
        lines: PeerLines,
        listener: ElectionListener,
        progress: BackupProgress,
        timing: Timing,
        entropy: Entropy,
        now: int,
        rules: ElectionRules = ALL_RULES,
    ) -> None:
        self.own_name: str = own_name
        # The root of this epoch, as far as it is known, and what its last heartbeat said.
        self.root_name: str = ""
        self.root_is_active: bool = False
        self.root_committed_k: int = -1
        # Why the record was proposed, on a server that is not the root.
        self.record_reason: str = ""
        self.root: RootRole | None = None
        self.promises: Promises = promises
        self.timing: Timing = timing
        self._lines: PeerLines = lines
        self._listener: ElectionListener = listener
        self._progress: BackupProgress = progress
        self._entropy: Entropy = entropy
        self._rules: ElectionRules = rules
        self._outbox: Outbox = Outbox(lines, promises, rules)
        self._events: OwnerEvents = OwnerEvents(listener)
        self._campaign: Campaign = Campaign(promises, rules)
        # The version of the promises that has the present epoch, and the one that has our own vote.
        self._epoch_version: int = 0
        self._vote_version: int = 0
        self._is_candidate: bool = False
        # What the owner said of its backup.
        self._is_syncing: bool = False
        self._is_synced: bool = False
        self._told_role: str = JOINING
        self._granted: int = 0
        # Store ids of all servers that were heard since the start, and when they last were.
        self._stores: dict[str, bytes] = {}
        self._heard_from: dict[str, int] = {}
        # When this server last asked for prevotes.
        self._asked_at: int = now
        # When a root was last heard. After a start we wait as if one had been: we may have answered
        # a heartbeat just before the crash (R4).
        self._heard: int = now
        self._lost_root: str = ""
        self._campaign_at: int = 0
        self._last_tick: int = now
        self._is_slow: bool = False
        self._depth: int = 0
        promises.listener = self
        self._wait_to_campaign(timing.elect_ms, now)

    @property
    def epoch(self) -> int:
        return self.promises.epoch

    @property
    def record(self) -> ClusterRecord:
        """The highest record that this server has accepted or proposed."""
        return self.promises.record

    @property
    def committed_record(self) -> ClusterRecord | None:
        """What a root knows to be committed in its epoch; None elsewhere."""
        return None if self.root is None else self.root.committed

    @property
    def role(self) -> str:
        if self.root is not None:
            return ACTIVE if self.root.is_active else RECOVERING
        if self._is_candidate:
            return CANDIDATE
        if not self.root_name:
            return JOINING
        if self._is_synced and self.own_name in self.record.in_sync:
            return READY
        return CATCHUP if self._is_synced or self._is_syncing else JOINING

    def lease_until(self, now: int) -> int:
        """When the lease of this root ends; in the past elsewhere."""
        return NEVER if self.root is None else self.root.lease_until(now)

    def sends_until(self, now: int) -> int:
        """Until when this server may send what depends on its lease. A root that is not active yet has
        none, and serves nobody.
        """
        if self.root is None or not self.root.is_active or not self._rules.lease:
            return NO_LIMIT
        return self.root.lease_until(now)

    def may_serve(self, now: int) -> bool:
        """Whether clients may be served at this moment (R14)."""
        return self.root is not None and self.root.may_serve(now)

    def awaited(self) -> list[str]:
        return [] if self.root is None else self.root.awaited()

    def has_begun(self) -> bool:
        return self.root is not None and self.root.has_begun()

    def knows_active_root(self, now: int) -> bool:
        if self.root is not None:
            return self.may_serve(now)
        return self.root_is_active and self.heard_root(now) != ""

    def heard_root(self, now: int) -> str:
        """The root as long as it is heard; empty if there is none, or it is most likely dead."""
        if self.root is not None:
            return self.own_name
        # A root whose link has ended is most likely dead: clients should not be sent to it. It may
        # also be heard over its own link while ours is dialled anew.
        is_linked = self.root_name in self._lines.connected()
        patience = self.timing.elect_ms if is_linked else self.timing.heartbeat_ms * 2
        return self.root_name if now - self._heard < patience else ""

    def expected_root(self, now: int) -> str:
        """Whom an election would make the root, in the view of this server; a root that is heard
        stays (no fail-back). Empty without a majority.
        """
        if self.root is not None:
            return self.own_name
        if self.root_name and now - self._heard < self.timing.grace_ms:
            return self.root_name
        near = [self.own_name, *self._lines.connected()]
        if not self.record.is_majority(near):
            return ""
        for name in self.record.electable():
            # The link to a root that fell silent may still look open.
            if name in near and name != self.root_name:
                return name
        return ""

    def votes(self, now: int) -> tuple[int, int, int]:
        """Votes that the root got while it is heard, or a candidate has; members that are connected, this one
        included; known members.
        """
        granted = self._granted if self.heard_root(now) else 0
        if self._is_candidate:
            granted = len(self._campaign.votes)
        if self.root is not None:
            granted = len(self.root.voters)
        near = [self.own_name, *self._lines.connected()]
        active = len([name for name in self.record.names() if name in near])
        return (granted, active, len(self.record.members))

    def is_counted(self, name: str, store_id: bytes) -> bool:
        """Whether a server is the member of that name, or a stranger with its name."""
        return self._campaign.counts(self.record, name, store_id)

    def peers(self) -> list[Member]:
        """Whom to keep links to: the other members, and of a root a server that is to be added, and one
        that is to be removed as long as its answer to that may be needed.
        """
        found = list(self.record.members)
        if self.root is not None:
            found.extend(self.root.leaving())
            if self.root.learner is not None:
                found.append(self.root.learner)
        return [member for member in found if member.name != self.own_name]

    def store_id_of(self, name: str) -> bytes:
        """The store id that a server was last heard with; empty if it was not heard."""
        return self._stores.get(name, b"")

    def _step_down(self, reason: str, now: int) -> None:
        assert self.root is not None
        self.record_reason = self.root.reason_of(self.record)
        self.root = None
        self.root_name = ""
        self.root_is_active = False
        self._granted = 0
        self._heard = now
        self._lost_root = ""
        self._wait_to_campaign(self.timing.elect_ms, now)
        self._events.add(STEPPED_DOWN, reason, "", 0)
        self._note_role(reason)

    def _forget_root(self) -> None:
        self._lost_root = self.root_name or self._lost_root
        self.root_name = ""
        self.root_is_active = False
        self._granted = 0

    def _adopt(self, epoch: int, why: str, now: int) -> None:
        """R7: promise a higher epoch."""
        if epoch <= self.epoch:
            return
        if self.root is not None:
            self._step_down(why, now)
        self._is_candidate = False
        self._campaign.end()
        self._forget_root()
        self._epoch_version = self.promises.change(epoch, "", self.record, now)
        self._note_role(why)

    def _accept(self, record: ClusterRecord, now: int, reason: str = "") -> None:
        """Keep a record that is not older than ours. Its root says why it proposed it; others do not."""
        if record.order() == self.record.order():
            assert record == self.record, "a version of an epoch is one record (I3)"
            return
        self.promises.change(self.epoch, self.promises.voted_for, record, now)
        self.record_reason = reason or "another member has told of it"
        self._note_role(f"{record.text()} was received")
        self._events.add(IN_SYNC_CHANGED, "", "", 0)

    def _show_record(self, name: str, record: ClusterRecord) -> None:
        if self.record.is_newer_than(record):
            self._outbox.post(name, self._outbox.message(VIEW, self.epoch, self.record))

    def _broadcast(self, kind: int, epoch: int) -> None:
        for member in self.record.members:
            if member.name != self.own_name:
                self._outbox.post(member.name, self._outbox.message(kind, epoch, self.record))

    def _wait_to_campaign(self, wait_ms: int, now: int) -> None:
        """R1: the most senior eligible server goes first."""
        electable = [name for name in self.record.electable() if name != self._lost_root]
        rank = len(electable)
        if self.own_name in electable:
            rank = electable.index(self.own_name)
        octets = self._entropy.octets(2)
        jitter = (octets[0] << 8 | octets[1]) * self.timing.jitter_ms >> 16
        self._campaign_at = now + wait_ms + rank * self.timing.stagger_ms + jitter

    def _note_role(self, reason: str) -> None:
        role = self.role
        if role != self._told_role:
            self._told_role = role
            self._events.add(ROLE_CHANGED, reason, role, 0)
