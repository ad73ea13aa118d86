"""What a server does while it is the root of an epoch: heartbeats, lease, records, hand-over.

Invariants
- the lease is counted from when a heartbeat was sent that a majority has answered (R14);
- one record is pending at a time; it is committed when a majority of the old and of the new members
  have it on their disks, this server among them or not (R10);
- nothing is completed before the epoch's first record is committed (R6, `has_begun`).
"""

from typing import Final

from penstock.cluster.in_sync_set import NEVER, InSyncSet
from penstock.cluster.member import Member
from penstock.cluster.membership import ChangeRefused, bound, with_in_sync, with_member
from penstock.cluster.messages import RECORD, RELEASE, ROOT
from penstock.cluster.outbox import Outbox
from penstock.cluster.promises import Promises
from penstock.cluster.record import ClusterRecord
from penstock.cluster.rules import ElectionRules
from penstock.cluster.surroundings import BackupProgress
from penstock.cluster.timing import Timing

# A server that is to be added catches up first. One that has not done so after ten minutes is not
# added; the operator may try again.
LEARNER_MS_MAX: Final = 600_000
# And one that has answered no heartbeat for so long is given up: its address may be wrong, or it is
# not started. One that is restarted meanwhile is back much earlier.
LEARNER_SILENT_MS_MAX: Final = 60_000


class RootRole:
    """Held by the election from winning to stepping down."""

    def __init__(
        self,
        own_name: str,
        promises: Promises,
        outbox: Outbox,
        progress: BackupProgress,
        timing: Timing,
        rules: ElectionRules,
        star: ClusterRecord,
        voters: list[str],
        now: int,
    ) -> None:
        """`star` is the highest record among the votes."""
        self.is_active: bool = False
        # Who voted for it, in the order of their answers.
        self.voters: list[str] = voters
        # The last committed record of this epoch; None before the first.
        self.committed: ClusterRecord | None = None
        # Why that was proposed, and the last one of all.
        self.committed_reason: str = ""
        self._reason: str = ""
        self.heir: str = ""
        self.learner: Member | None = None
        # Why the last addition came to nothing.
        self.why_not_added: str = ""
        # Store ids that servers were heard with in this epoch.
        self.stores: dict[str, bytes] = {}
        self.in_sync_set: InSyncSet = InSyncSet(own_name, progress, timing, rules, now)
        self._own_name: str = own_name
        self._epoch: int = promises.epoch
        self._promises: Promises = promises
        self._outbox: Outbox = outbox
        self._progress: BackupProgress = progress
        self._timing: Timing = timing
        self._rules: ElectionRules = rules
        self._won_at: int = now
        # When the newest heartbeat was sent that a server has answered, and with which store.
        self._answered: dict[str, int] = {}
        self._answering_stores: dict[str, bytes] = {}
        self._heartbeat_at: int = NEVER
        # The pending record: what it is to replace, when it is ours, and who has it.
        self._replaces: ClusterRecord = star
        self._proposed_version: int = 0
        self._accepted: dict[str, bytes] = {}
        self._heir_until: int = 0
        self._learner_since: int = 0
        if not rules.barrier:
            self.committed = star

    # Lease.

    def lease_until(self, now: int) -> int:
        """R14."""
        record = self._promises.record
        answered = self._counted_answers(record)
        answered[self._own_name] = now
        times = [answered.get(name, NEVER) for name in record.names()]
        times.sort(reverse=True)
        return times[len(times) // 2] + self._timing.lease_ms

    def is_lease_over(self, now: int) -> bool:
        """Also for a root that has only just begun: it gets one lease's time for its first."""
        if not self._rules.lease:
            return False
        return now > max(self.lease_until(now), self._won_at + self._timing.lease_ms)

    def may_serve(self, now: int) -> bool:
        if not self.is_active or self.heir:
            return False
        return not self._rules.lease or now <= self.lease_until(now)

    def voted_late(self, name: str) -> None:
        """A vote that came after the election was won; only for the status."""
        if name not in self.voters and self._promises.record.find(name) is not None:
            self.voters.append(name)

    def heard(self, name: str, store_id: bytes) -> None:
        self.stores[name] = store_id

    def answered(self, name: str, store_id: bytes, sent_at: int, now: int) -> None:
        """ROOT_OK; `sent_at` is our own clock, so nothing later than now can be true."""
        if sent_at > now:
            return
        if self._answering_stores.get(name, b"") != store_id:
            self._answering_stores[name] = store_id
            self._answered.pop(name, None)
        self._answered[name] = max(self._answered.get(name, NEVER), sent_at)

    def _counted_answers(self, record: ClusterRecord) -> dict[str, int]:
        """Those of members. Answers of others are kept too: whoever becomes a member has promised
        not to elect another root before, and its answers count at once.
        """
        return {
            name: sent_at
            for name, sent_at in self._answered.items()
            if self._counts(record, name, self._answering_stores[name])
        }

    def has_announced(self) -> bool:
        return self._heartbeat_at != NEVER

    def send_heartbeats(self, connected: list[str], is_slow: bool, now: int) -> bool:
        """R15: none while the disk or the event loop makes no progress. Whether they were sent."""
        if now - self._heartbeat_at < self._timing.heartbeat_ms:
            return False
        if is_slow and self._rules.progress:
            return False
        self._heartbeat_at = now
        # A pending record that is not durable here yet must not leave.
        record = self._promises.durable_record
        if not self._rules.durability:
            record = self._promises.record
        message = self._outbox.message(ROOT, self._epoch, record)
        message.reason = self.reason_of(record)
        message.sent_at = now
        message.is_active = self.is_active
        message.granted = len(self.voters)
        message.committed_k = self._progress.committed_k()
        for name in self._everybody(connected):
            self._outbox.send_now(name, message)
        self._repeat_record()
        return True

    def _everybody(self, connected: list[str]) -> list[str]:
        """Members, old and new, and strangers that follow."""
        names = dict.fromkeys(self._promises.record.names())
        names.update(dict.fromkeys(self._replaces.names()))
        names.update(dict.fromkeys(connected))
        return [name for name in names if name != self._own_name]

    # Records.

    def has_begun(self) -> bool:
        return self.committed is not None

    def is_settled(self) -> bool:
        return self.committed is not None and self.committed == self._promises.record

    def change_under_way(self) -> str:
        """What another record has to wait for; empty if it need not."""
        if self.heir:
            return f"a hand-over to {self.heir!r}; try again in a moment"
        if self.is_settled():
            return ""
        return f"a record that the members have not accepted yet ({self._reason}); try again later"

    def propose(self, record: ClusterRecord, reason: str, now: int) -> None:
        if record.epoch != self._epoch:
            assert not self._rules.barrier, "the barrier is the first record of an epoch (R6)"
            record = ClusterRecord(
                self._epoch, 1, record.cluster_id, record.members, record.in_sync
            )
        assert record.is_newer_than(self._promises.record), "versions are ordered (I3)"
        if self.committed is not None:
            assert self.is_settled(), "one change at a time (R10)"
            self._replaces = self.committed
        self._accepted = {}
        self._reason = reason
        version = self._promises.change(self._epoch, self._promises.voted_for, record, now)
        self._proposed_version = version
        for name in self._everybody([]):
            self._post_record(name)

    def reason_of(self, record: ClusterRecord) -> str:
        """Why this record was proposed, which is the last one or the one before that."""
        is_last = record.order() == self._promises.record.order()
        return self._reason if is_last else self.committed_reason

    def _post_record(self, name: str) -> None:
        message = self._outbox.message(RECORD, self._epoch, self._promises.record)
        message.reason = self._reason
        self._outbox.post_after(self._proposed_version, name, message)

    def _repeat_record(self) -> None:
        if not self.is_settled() and self._outbox.is_durable(self._proposed_version):
            for name in self._everybody([]):
                if name not in self._accepted:
                    self._post_record(name)

    def leaving(self) -> list[Member]:
        """Members that the pending record does not name any more. Until it is committed they accept
        it with the old majority, and what the old in-sync set has to acknowledge waits for them.
        """
        names = self._promises.record.names()
        return [member for member in self._replaces.members if member.name not in names]

    def accepted(self, name: str, store_id: bytes, order: tuple[int, int]) -> None:
        """RECORD_OK."""
        if order == self._promises.record.order():
            self._accepted[name] = store_id

    def try_commit(self) -> bool:
        """Whether the pending record has become committed. Our own disk counts once it has it."""
        record = self._promises.record
        if self.is_settled() or record.epoch != self._epoch:
            return False
        if self._outbox.is_durable(self._proposed_version):
            self._accepted[self._own_name] = self._promises.store_id
        if not self._has_majority(record):
            return False
        if self._rules.both_majorities and not self._has_majority(self._replaces):
            return False
        if self.committed is not None:
            assert record.is_newer_than(self.committed), "committed records only grow (I3)"
        self.committed = record
        self.committed_reason = self._reason
        self._replaces = record
        return True

    def _has_majority(self, record: ClusterRecord) -> bool:
        found = [n for n, store_id in self._accepted.items() if self._counts(record, n, store_id)]
        return record.is_majority(found)

    def _counts(self, record: ClusterRecord, name: str, store_id: bytes) -> bool:
        if not self._rules.store_ids:
            return record.find(name) is not None
        return self._promises.counts(record, name, store_id)

    # In-sync set.

    def awaited(self) -> list[str]:
        """Whose acknowledgements completion waits for (`eff` of the protocol)."""
        record = self._promises.record
        guarded = self.in_sync_set.guarded()
        if self.committed is record and not guarded:
            # Nearly always; it is asked several times for every operation.
            return list(record.in_sync)
        names = dict.fromkeys(record.in_sync)
        if self.committed is not None and self._rules.both_sets:
            names.update(dict.fromkeys(self.committed.in_sync))
        names.update(dict.fromkeys(guarded))
        return list(names)

    def review(self, now: int) -> bool:
        """Propose another record if there is reason to; whether something changed."""
        if not self.is_settled():
            return False
        record = self._promises.record
        known = self._known(record)
        changed = self.in_sync_set.watch(record, known, now)
        for member in record.members:
            store_id = self._promises.stores.get(member.name, b"")
            if not member.store_id and store_id:
                self.propose(
                    bound(record, member.name, store_id), f"{member.name!r} was heard first", now
                )
                return True
        answered = self._counted_answers(record)
        wanted = self.in_sync_set.wanted(record, known, answered, now)
        if tuple(wanted) != record.in_sync and self.in_sync_set.is_enough(record, wanted):
            self.propose(with_in_sync(record, wanted), "; ".join(self.in_sync_set.reasons), now)
            return True
        return self._add_learner(record, now) or changed

    def why_too_few(self, now: int) -> str:
        """Why nothing can be committed; empty while enough servers make progress."""
        record = self._promises.record
        return self.in_sync_set.why_too_few(record, self._counted_answers(record), now)

    def _known(self, record: ClusterRecord) -> list[str]:
        return [
            member.name
            for member in record.members
            if member.name != self._own_name
            and member.store_id
            and self._counts(record, member.name, self.stores.get(member.name, b""))
        ]

    def learn(self, member: Member, now: int) -> None:
        """A server that is to be added catches up first."""
        self.learner = member
        self._learner_since = now

    def forget_learner(self, name: str, why: str) -> bool:
        """It is not added after all. Whether it was to be: a member cannot be forgotten so."""
        if self.learner is None or self.learner.name != name:
            return False
        self.learner = None
        self.why_not_added = why
        return True

    def give_up_learner(self, now: int) -> bool:
        """Whether a server that was to be added has used up its time."""
        learner = self.learner
        if learner is None:
            return False
        name = learner.name
        if now - self._learner_since > LEARNER_MS_MAX:
            seconds = LEARNER_MS_MAX // 1000
            return self.forget_learner(
                name, f"{name!r} has not caught up within {seconds} s; see its log, and try again"
            )
        heard_at = max(self._answered.get(name, NEVER), self._learner_since)
        if now - heard_at > LEARNER_SILENT_MS_MAX:
            seconds = LEARNER_SILENT_MS_MAX // 1000
            return self.forget_learner(
                name,
                f"nothing was heard of {name!r} at {learner.address} for {seconds} s, so it is not "
                "added; see whether it is started, at this address and with the cluster's key",
            )
        return False

    def _add_learner(self, record: ClusterRecord, now: int) -> bool:
        learner = self.learner
        if learner is None:
            return False
        store_id = self._store_to_add(learner.name)
        if not store_id:
            return False
        self.learner = None
        member = Member(learner.name, learner.address, store_id)
        self.propose(with_member(record, member), f"{learner.name!r} was added", now)
        return True

    def _store_to_add(self, name: str) -> bytes:
        """The store of a server that is to be added, once it has caught up. A server of that name may have
        been a member before, with a store that is gone: so it must have answered a heartbeat that was
        sent since, and have caught up with the store that answered.
        """
        store_id = self._answering_stores.get(name, b"")
        if self._answered.get(name, NEVER) <= self._learner_since:
            return b""
        if self._progress.joined_store(name) != store_id or self._progress.acked_k(name) < 0:
            return b""
        return store_id

    def present_store(self, name: str, now: int) -> bytes:
        """The store of a server that answers heartbeats at present; empty if it does not."""
        store_id = self._answering_stores.get(name, b"")
        if now - self._answered.get(name, NEVER) > self._timing.in_sync_ms:
            return b""
        return store_id if store_id == self.stores.get(name, b"") else b""

    # Hand-over.

    def begin_hand_over(self, heir: str, now: int) -> None:
        record = self._promises.record
        member = record.find(heir)
        if not self.is_active:
            raise ChangeRefused("this server is not the active root")
        if self.heir:
            raise ChangeRefused(f"a hand-over to {self.heir!r} is under way")
        if member is None or heir == self._own_name:
            raise ChangeRefused(f"{heir!r} is not another member of the cluster")
        if heir not in record.in_sync:
            raise ChangeRefused(f"{heir!r} is not in the in-sync set")
        if not member.may_be_root:
            raise ChangeRefused(f"the root role of {heir!r} is disabled")
        self.heir = heir
        self._heir_until = now + self._timing.hand_over_ms

    def is_hand_over_late(self, now: int) -> bool:
        return self.heir != "" and now > self._heir_until

    def is_hand_over_ready(self) -> bool:
        """Everything is committed, and the heir has it."""
        committed = self.committed
        if not self.heir or committed is None or not self.is_settled():
            return False
        last = self._progress.last_k()
        return (
            self.heir in committed.in_sync
            and self._progress.committed_k() == last
            and self._progress.acked_k(self.heir) == last
            and not self._progress.is_syncing(self.heir)
        )

    def release(self, connected: list[str]) -> None:
        """The lease is given up; nobody need wait for its end."""
        message = self._outbox.message(RELEASE, self._epoch, None)
        message.heir = self.heir
        for name in self._everybody(connected):
            self._outbox.send_now(name, message)
