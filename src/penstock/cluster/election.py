"""The election of the root as one server takes part in it (sections 4, 5, 7, 9 and 10 of the protocol).

The owner calls `tick` at least five times per heartbeat interval, `received` for every control
message, `link_changed` when a link came or went, `backup_is` when its own backup's state changed, and,
on a root, `progress_changed` when a backup acknowledged or something was committed. It asks `may_serve`
before it serves a client, `awaited` and `has_begun` for what completion waits for, `knows_active_root`
before it sends a client elsewhere, `is_counted` before it takes a JOIN for that of a member, `peers` for
whom to dial, and `expected_root`, `votes`, `lease_until`, `committed_record` and `root_committed_k` for
its status. An operator's commands are `hand_over`, `add_member`, `remove_member`, `replace_member`,
`enable_root`, `disable_root` and `force_root` of an `Election`.

Invariants
- whatever depends on a promise happens only when it is durable: messages wait in the outbox, our own
  vote and our own acceptance of a record count then, and the owner hears of a root then;
- an epoch has one root (I1), and a version of it one record (I3): a peer that says otherwise is refused;
- the owner is told at the end of a call, when everything here is consistent, in the order in which
  things happened.
"""

from typing import Final

from penstock.cluster.campaign import Vote
from penstock.cluster.candidacy import Candidacy
from penstock.cluster.contradictions import refuse_contradiction, refuse_foreign
from penstock.cluster.in_sync_set import NEVER
from penstock.cluster.member import Member
from penstock.cluster.membership import (
    ChangeRefused,
    check_new_member,
    replaced,
    with_root_role,
    without_member,
)
from penstock.cluster.messages import (
    NACK,
    PREVOTE,
    PREVOTED,
    RECORD,
    RECORD_OK,
    RELEASE,
    ROOT,
    ROOT_OK,
    VIEW,
    VOTE,
    VOTED,
    ControlMessage,
    decode_message,
)
from penstock.cluster.owner_events import ACTIVATED, FAILED, IN_SYNC_CHANGED, ROLE_CHANGED
from penstock.cluster.record import CLUSTER_ID_BYTES, EPOCH_MAX, ClusterRecord, newest
from penstock.cluster.root_role import RootRole

# Answers to these tell the sender that its epoch is over.
_FENCED: Final = (ROOT, RECORD, VOTE, RELEASE)


class Election(Candidacy):
    """Held by the owner, and by the promises."""

    def tick(self, now: int) -> None:
        self._depth += 1
        lag = now - self._last_tick
        self._last_tick = now
        if self.root is not None:
            self._root_tick(self.root, lag, now)
        else:
            self._try_prevotes(now)
            if now >= self._campaign_at:
                self._ask_for_prevotes(now)
            else:
                self._repeat_prevotes(now)
        self._end_call(now)

    def link_changed(self, now: int) -> None:
        self._depth += 1
        self._try_prevotes(now)
        self._end_call(now)

    def backup_is(self, is_syncing: bool, is_synced: bool, now: int) -> None:
        self._depth += 1
        self._is_syncing = is_syncing
        self._is_synced = is_synced
        self._note_role("the state of its backup changed")
        self._end_call(now)

    def progress_changed(self, name: str, now: int) -> None:
        """A backup acknowledged something or began a SYNC, or something was committed."""
        self._depth += 1
        root = self.root
        if root is not None and name not in self.record.in_sync and root.review(now):
            self._events.add(IN_SYNC_CHANGED, "", "", 0)
        self._end_call(now)

    def received(self, name: str, store_id: bytes, kind: int, octets: bytes, now: int) -> None:
        """A control message from a peer. Raises `BadPeerMessage`; then nothing has changed."""
        message = decode_message(kind, octets)
        refuse_foreign(self, name, message)
        refuse_contradiction(self, name, message)
        self._depth += 1
        self._stores[name] = store_id
        self._heard_from[name] = now
        self.promises.heard(name, store_id, now)
        if self.root is not None:
            self.root.heard(name, store_id)
        self._take(name, store_id, message, now)
        self._end_call(now)

    def promised(self, now: int) -> None:
        # Inside one of our own calls its end does this, with a time that can be trusted.
        if not self._depth:
            self._depth += 1
            self._end_call(now)

    def promise_failed(self, reason: str, now: int) -> None:
        self._depth += 1
        self._events.add(FAILED, reason, "", 0)
        self._end_call(now)

    def _end_call(self, now: int) -> None:
        """Do what has become possible, then tell the owner."""
        if self._depth == 1:
            while self._go_on(now):
                pass
        self._depth -= 1

    def _go_on(self, now: int) -> bool:
        """One step; whether there was anything to do."""
        if self._outbox.release():
            return True
        if self._is_candidate and self._outbox.is_durable(self._vote_version):
            if self.own_name not in self._campaign.votes:
                own = Vote(self.promises.store_id, self.record)
                self._campaign.votes[self.own_name] = own
                self._try_win(now)
                return True
        root = self.root
        if root is not None and root.try_commit():
            self._events.add(IN_SYNC_CHANGED, "", "", 0)
            return True
        is_durable = self._outbox.is_durable(self._epoch_version)
        followed = self.root_name if root is None and is_durable else ""
        if self._events.leave(followed, self.epoch, now) or self._events.tell(now):
            return True
        if self._events.follow(followed, self.epoch, now):
            return True
        # Only now: the owner has heard that it is the root, so that its progress can be asked.
        return root is not None and self._advance_root(root, now)

    def _root_tick(self, root: RootRole, lag: int, now: int) -> None:
        if root.is_lease_over(now):
            self._step_down(
                "its lease has ended: no majority of the members answered its heartbeats", now
            )
            return
        flushing_since = self.promises.flushing_since
        self._is_slow = (
            lag > self.timing.lease_ms // 2
            or (flushing_since >= 0 and now - flushing_since > self.timing.disk_ms)
            or self._listener.disk_is_slow(now)
        )
        root.send_heartbeats(self._lines.connected(), self._is_slow, now)
        if root.is_hand_over_late(now):
            self._events.add(
                ROLE_CHANGED,
                f"the hand-over to {root.heir!r} was not possible within "
                f"{self.timing.hand_over_ms} ms; this server remains the root",
                self.role,
                0,
            )
            root.heir = ""
        if root.give_up_learner(now) or root.review(now):
            self._events.add(IN_SYNC_CHANGED, "", "", 0)

    def _advance_root(self, root: RootRole, now: int) -> bool:
        """What progress makes possible: becoming active, the end of a hand-over."""
        if root.is_hand_over_ready():
            heir = root.heir
            root.release(self._lines.connected())
            self._step_down(f"it handed over to {heir!r}", now)
            # The lease is given up, so nobody has to wait for its end, this server included; but
            # the heir goes first.
            self._heard = NEVER
            return True
        if not root.has_announced() and root.send_heartbeats(
            self._lines.connected(), self._is_slow, now
        ):
            return True
        if root.is_active or not root.has_begun() or self._progress.committed_k() < 0:
            return False
        if self._rules.lease and now > root.lease_until(now):
            return False
        root.is_active = True
        self._note_role("everything inherited is committed by the in-sync set")
        self._events.add(ACTIVATED, "", "", 0)
        return True

    def _take(self, name: str, store_id: bytes, message: ControlMessage, now: int) -> None:
        kind = message.kind
        record = message.record
        if kind == PREVOTE and record is not None:
            self._take_prevote(name, store_id, message.epoch, record, now)
        elif kind == VIEW and record is not None:
            self._take_view(record, now)
        elif kind == PREVOTED and record is not None:
            self._take_prevoted(name, store_id, message.epoch, record, now)
        elif message.epoch < self.epoch and self._fence(name, kind):
            return
        elif kind == VOTE and record is not None:
            self._take_vote(name, store_id, message.epoch, record, now)
        elif kind == VOTED and record is not None:
            if message.epoch == self.epoch and self._is_candidate:
                self._campaign.votes[name] = Vote(store_id, record)
                self._try_win(now)
            elif message.epoch == self.epoch and self.root is not None:
                self.root.voted_late(name)
        elif kind == NACK:
            self._take_nack(name, message.epoch, now)
        elif kind == RELEASE:
            self._take_release(name, message, now)
        elif kind == ROOT_OK and self.root is not None:
            if message.epoch == self.epoch:
                self.root.answered(name, store_id, message.sent_at, now)
        elif kind == RECORD_OK and self.root is not None:
            if message.epoch == self.epoch or not self._rules.fencing:
                self.root.accepted(name, store_id, message.accepted)
        elif kind == ROOT and record is not None:
            self._take_root(name, store_id, message, record, now)
        elif kind == RECORD and record is not None:
            if self._take_sender(name, store_id, message.epoch, record, now):
                self._take_record(name, message.epoch, record, message.reason, now)

    def _take_nack(self, name: str, epoch: int, now: int) -> None:
        is_asking = self._campaign.asked_at >= 0
        if is_asking and name not in self._campaign.refused:
            self._campaign.refused.append(name)
        if epoch > self.epoch:
            self._adopt(epoch, f"{name!r} has promised epoch {epoch}", now)
            if is_asking:
                # It was refused only because its epoch was too low.
                self._campaign_at = min(self._campaign_at, now + self.timing.stagger_ms)

    def _fence(self, name: str, kind: int) -> bool:
        """R7; whether the message is refused."""
        if not self._rules.fencing:
            return kind not in (RECORD, RECORD_OK)
        if kind in _FENCED:
            self._outbox.post(name, self._outbox.message(NACK, self.epoch, None))
        return True

    def _take_sender(
        self, name: str, store_id: bytes, epoch: int, record: ClusterRecord, now: int
    ) -> bool:
        """A message that only a root sends; whether it is to be taken."""
        top = newest(self.record, record)
        if not self._campaign.counts(top, name, store_id):
            return False
        if epoch < self.epoch:
            return True  # only with fencing switched off
        self._adopt(epoch, f"{name!r} is the root of epoch {epoch}", now)
        # Another root of this epoch was refused before (`refuse_contradiction`).
        assert self.root is None, "an epoch has one root (I1)"
        self._is_candidate = False
        self._campaign.end()
        self._heard = now
        self._lost_root = name
        if self.root_name != name:
            self.root_name = name
            self.root_is_active = False
            self.root_committed_k = -1
        self._wait_to_campaign(self.timing.elect_ms, now)
        self._note_role(f"{name!r} is the root of epoch {epoch}")
        return True

    def _take_root(
        self, name: str, store_id: bytes, message: ControlMessage, record: ClusterRecord, now: int
    ) -> None:
        if not self._take_sender(name, store_id, message.epoch, record, now):
            return
        self.root_is_active = message.is_active
        self.root_committed_k = message.committed_k
        self._granted = message.granted
        if record.is_newer_than(self.record):
            self._take_record(name, message.epoch, record, message.reason, now)
        answer = self._outbox.message(ROOT_OK, self.epoch, None)
        answer.sent_at = message.sent_at
        self._outbox.post_after(self._epoch_version, name, answer)

    def _take_record(
        self, name: str, epoch: int, record: ClusterRecord, reason: str, now: int
    ) -> None:
        """R10."""
        if self.record.is_newer_than(record):
            return
        store_id = self.promises.store_id
        is_known = self._campaign.counts(self.record, self.own_name, store_id)
        self._accept(record, now, reason)
        if is_known or self._campaign.counts(record, self.own_name, store_id):
            answer = self._outbox.message(RECORD_OK, epoch, None)
            answer.accepted = record.order()
            self._outbox.post(name, answer)

    def _take_release(self, name: str, message: ControlMessage, now: int) -> None:
        """The root of this epoch has given up its lease."""
        if self.root is not None or name != self.root_name:
            return
        self._heard = NEVER
        self.root_is_active = False
        self._lost_root = name
        self._wait_to_campaign(self.timing.elect_ms // 2, now)
        if message.heir == self.own_name:
            # The root has seen that it has everything. Its line may have ended before this came,
            # by another one: then it does not count as synced any more, and has everything still.
            self._ask_for_prevotes(now)
            # The others may hear of the release after our question.
            self._campaign_at = min(self._campaign_at, now + self.timing.heartbeat_ms)

    # An operator's commands. Each returns an empty text, or the reason why not.

    def hand_over(self, name: str, now: int) -> str:
        """Let another server become the root. It happens later, or is given up with a note."""
        self._depth += 1
        reason = self._why_no_change()
        if self.root is not None and not reason:
            try:
                self.root.begin_hand_over(name, now)
            except ChangeRefused as refused:
                reason = str(refused)
        self._end_call(now)
        return reason

    def add_member(self, name: str, address: str, now: int) -> str:
        """The server catches up first; the record follows when it has."""
        self._depth += 1
        reason = self._why_no_change() or self._why_members_stay()
        if self.root is not None and not reason:
            try:
                check_new_member(self.record, name, address)
                self.root.learn(Member(name, address), now)
                self._events.add(IN_SYNC_CHANGED, "", "", 0)
            except ChangeRefused as refused:
                reason = str(refused)
        self._end_call(now)
        return reason

    def remove_member(self, name: str, now: int) -> str:
        """Of a server that is still to be added: it is not added."""
        self._depth += 1
        root = self.root
        if root is not None and root.forget_learner(name, f"adding {name!r} was cancelled"):
            # It is in no record, so that a pending one is not in the way.
            self._events.add(IN_SYNC_CHANGED, "", "", 0)
            self._end_call(now)
            return ""
        reason = self._why_no_change() or self._why_members_stay()
        if root is not None and not reason:
            try:
                root.propose(
                    without_member(self.record, name, self.own_name), f"{name!r} was removed", now
                )
            except ChangeRefused as refused:
                reason = str(refused)
        self._end_call(now)
        return reason

    def replace_member(self, name: str, now: int) -> str:
        """A member lost its disk: from now on its name means the store that it has now."""
        self._depth += 1
        reason = self._why_no_change()
        if self.root is not None and not reason:
            store_id = self.root.present_store(name, now)
            try:
                self.root.propose(
                    replaced(self.record, name, store_id, self.own_name),
                    f"the store of {name!r} was replaced",
                    now,
                )
            except ChangeRefused as refused:
                reason = str(refused)
        self._end_call(now)
        return reason

    def enable_root(self, name: str, now: int) -> str:
        return self._change_root_role(name, True, now)

    def disable_root(self, name: str, now: int) -> str:
        """A root whose role is disabled hands over to the most senior server that can."""
        return self._change_root_role(name, False, now)

    def _change_root_role(self, name: str, may_be_root: bool, now: int) -> str:
        self._depth += 1
        reason = self._why_no_change()
        if self.root is not None and not reason:
            try:
                record = with_root_role(self.record, name, may_be_root)
                if name == self.own_name and not may_be_root:
                    self.root.begin_hand_over(record.electable()[0], now)
                word = "enabled" if may_be_root else "disabled"
                self.root.propose(record, f"the root role of {name!r} was {word}", now)
            except ChangeRefused as refused:
                reason = str(refused)
        self._end_call(now)
        return reason

    def _why_no_change(self) -> str:
        root = self.root
        if root is None or not root.is_active:
            return "this server is not the active root; send the command to the root"
        other = root.change_under_way()
        return f"another change of the cluster is in progress: {other}" if other else ""

    def _why_members_stay(self) -> str:
        """One server is added or removed at a time. What else changes may pass by a server that
        catches up, which is in no record.
        """
        if self.root is None or self.root.learner is None:
            return ""
        name = self.root.learner.name
        return (
            f"another change of the cluster is in progress: {name!r} is being added. Wait until it "
            f"is a member, or cancel that with `penstock cluster remove {name}`"
        )

    def force_root(self, now: int) -> str:
        """A majority of the disks is lost: go on with what this server has, as the only member of
        a cluster with a new id, which refuses the servers of the old one.
        """
        own = self.record.find(self.own_name)
        if self.root is not None:
            return "this server is the root"
        if self.root_name and now - self._heard < self.timing.elect_ms:
            return f"{self.root_name!r} is the root; nothing has to be forced"
        if own is None or not self.is_counted(self.own_name, self.promises.store_id):
            return "this server is not a member of the cluster, so it holds nothing of it"
        if self.epoch >= EPOCH_MAX:
            return "there are no more epochs; start a new cluster with `penstock store salvage`"
        self._depth += 1
        member = Member(self.own_name, own.address, self.promises.store_id)
        cluster_id = self._entropy.octets(CLUSTER_ID_BYTES)
        self._adopt(self.epoch + 1, "an operator forced it to be the root", now)
        record = ClusterRecord(self.epoch, 1, cluster_id, (member,), (self.own_name,))
        self._accept(record, now, "an operator forced a root")
        self._campaign_at = now
        self._end_call(now)
        return ""
