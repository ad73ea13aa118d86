"""How a server asks for votes and gives its own (R1 to R5 of the protocol)."""

from penstock.cluster.campaign import Vote
from penstock.cluster.in_sync_set import NEVER
from penstock.cluster.membership import barrier_record
from penstock.cluster.messages import NACK, PREVOTE, PREVOTED, VIEW, VOTE, VOTED
from penstock.cluster.owner_events import WON
from penstock.cluster.record import EPOCH_MAX, ClusterRecord, newest
from penstock.cluster.root_role import RootRole
from penstock.cluster.standing import Standing


class Candidacy(Standing):
    """The part of an election that votes."""

    def _why_not_campaign(self) -> str:
        record = self.record
        member = record.find(self.own_name)
        if not self._campaign.counts(record, self.own_name, self.promises.store_id):
            return "it is not a member, or the cluster knows its name with another store"
        if not self._campaign.is_eligible(record, self.own_name, self.promises.store_id):
            return "it is not in the in-sync set"
        if member is None or not member.may_be_root:
            return "its root role is disabled"
        return "" if self.epoch < EPOCH_MAX else "there are no more epochs"

    def _ask_for_prevotes(self, now: int) -> None:
        self._lost_root = self.root_name or self._lost_root
        self._wait_to_campaign(self.timing.elect_ms // 2, now)
        if self._why_not_campaign():
            # It cannot win; its record may help one that can.
            self._broadcast(VIEW, self.epoch)
            return
        own = Vote(self.promises.store_id, self.record)
        self._asked_at = now
        self._campaign.ask(self.own_name, own, now)
        self._broadcast(PREVOTE, self.epoch + 1)
        self._try_prevotes(now)

    def _repeat_prevotes(self, now: int) -> None:
        """R1: a server that started later gives no prevote for as long as it may have answered a root
        before. Who is the most senior asks it again in time, or it would go first when that is over.
        """
        campaign = self._campaign
        if campaign.asked_at < 0 or now - campaign.repeated_at < self.timing.heartbeat_ms:
            return
        if self.expected_root(now) != self.own_name:
            return
        campaign.repeated_at = now
        for name in self.record.names():
            if name not in campaign.prevotes and name not in campaign.refused:
                message = self._outbox.message(PREVOTE, self.epoch + 1, self.record)
                self._outbox.post(name, message)

    def _try_prevotes(self, now: int) -> None:
        """R3: with a majority, once everybody who is connected has answered, or time is up. A root
        that fell silent is not waited for, though its link may look open: the next in seniority may
        see that it is closed, and would overtake us.
        """
        campaign = self._campaign
        if campaign.asked_at < 0 or not campaign.is_majority(campaign.prevotes, self.record):
            return
        if now - campaign.asked_at < self.timing.unanimous_ms:
            near = self._lines.connected()
            for name in self.record.names():
                is_open = name not in campaign.prevotes and name not in campaign.refused
                if is_open and name in near and name not in (self.own_name, self._lost_root):
                    return
        self._become_candidate(now)

    def _become_candidate(self, now: int) -> None:
        assert self.root is None
        self._campaign.end()
        self._is_candidate = True
        self._forget_root()
        version = self.promises.change(self.epoch + 1, self.own_name, self.record, now)
        self._epoch_version = version
        self._vote_version = version
        self._wait_to_campaign(self.timing.elect_ms // 2, now)
        self._note_role(f"no root was heard; it campaigns in epoch {self.epoch}")
        self._broadcast(VOTE, self.epoch)

    def _try_win(self, now: int) -> None:
        """R5 and, again, R2."""
        campaign = self._campaign
        if not self._is_candidate or self.own_name not in campaign.votes:
            return
        star = campaign.star(self.record)
        if star.epoch >= self.epoch:
            self._is_candidate = False
            campaign.end()
            self._accept(star, now)
            self._note_role(f"there is a record of epoch {star.epoch}, which has had its root")
            return
        if not campaign.is_eligible(star, self.own_name, self.promises.store_id):
            self._is_candidate = False
            self._accept(star, now)
            self._note_role("a voter has a newer record in which it is not in sync")
            return
        if not campaign.is_majority(campaign.votes, star):
            return
        assert not self.root_name, "an epoch has one root (I1)"
        assert self.promises.voted_for == self.own_name
        voters = list(campaign.votes)
        campaign.end()
        self._is_candidate = False
        self.root_name = self.own_name
        root = RootRole(
            self.own_name,
            self.promises,
            self._outbox,
            self._progress,
            self.timing,
            self._rules,
            star,
            voters,
            now,
        )
        root.stores = dict(self._stores)
        self.root = root
        self._events.add(WON, "", "", self.epoch)
        self._note_role(f"{', '.join(voters)} voted for it in epoch {self.epoch}")
        if self._rules.barrier:
            stores = {**self.promises.stores, self.own_name: self.promises.store_id}
            reachable = [*voters, *self._answering()]
            root.propose(
                barrier_record(star, self.epoch, stores, reachable),
                f"{self.own_name!r} became the root of epoch {self.epoch}",
                now,
            )
        else:
            self._accept(star, now)

    def _answering(self) -> list[str]:
        """Who is connected and has been heard since this server began to ask: one that hangs, as
        the lost root may, would delay the beginning of the epoch.
        """
        return [
            name
            for name in self._lines.connected()
            if self._heard_from.get(name, NEVER) >= self._asked_at
        ]

    def _is_quiet(self, now: int) -> bool:
        """Whether no root can have a valid lease by our answer (R3, R4)."""
        return not self._rules.lease or now - self._heard >= self.timing.grace_ms

    def _take_prevote(
        self, name: str, store_id: bytes, epoch: int, record: ClusterRecord, now: int
    ) -> None:
        top = newest(self.record, record)
        member = top.find(name)
        if (
            epoch > self.epoch
            and self._is_quiet(now)
            and self.root is None
            and self._campaign.is_eligible(top, name, store_id)
            and (member is None or member.may_be_root)
            and self._campaign.counts(top, self.own_name, self.promises.store_id)
        ):
            self._outbox.post(name, self._outbox.message(PREVOTED, epoch, self.record))
            return
        self._show_record(name, record)
        if epoch <= self.epoch:
            # Else an eligible server with a lower epoch could never win.
            self._outbox.post(name, self._outbox.message(NACK, self.epoch, None))

    def _take_prevoted(
        self, name: str, store_id: bytes, epoch: int, record: ClusterRecord, now: int
    ) -> None:
        if epoch != self.epoch + 1 or self._campaign.asked_at < 0:
            return
        self._campaign.prevotes[name] = Vote(store_id, record)
        self._take_view(record, now)
        self._try_prevotes(now)

    def _take_view(self, record: ClusterRecord, now: int) -> None:
        """A newer record only teaches who is eligible."""
        if self.root is None and record.is_newer_than(self.record):
            # The epoch of a record has had its root, so that nobody need campaign in it.
            self._adopt(record.epoch, f"there is a record of epoch {record.epoch}", now)
            self._accept(record, now)
            if self._campaign.asked_at >= 0 and self._why_not_campaign():
                self._campaign.end()
            if self._is_candidate:
                self._try_win(now)

    def _take_vote(
        self, name: str, store_id: bytes, epoch: int, record: ClusterRecord, now: int
    ) -> None:
        """R4."""
        if not self._is_quiet(now):
            return
        if self.root is not None and (epoch <= self.epoch or self._rules.lease):
            # A root has its own lease to lose first.
            return
        top = newest(self.record, record)
        self._show_record(name, record)
        if not self._campaign.counts(top, name, store_id):
            return
        self._adopt(epoch, f"{name!r} campaigns in epoch {epoch}", now)
        may_vote = self.promises.voted_for in ("", name) or not self._rules.one_vote
        is_voter = self._campaign.counts(top, self.own_name, self.promises.store_id)
        if may_vote and is_voter and self._campaign.is_eligible(top, name, store_id):
            if self.promises.voted_for != name:
                self.promises.change(epoch, name, self.record, now)
                self._wait_to_campaign(self.timing.elect_ms // 2, now)
            self._outbox.post(name, self._outbox.message(VOTED, epoch, self.record))
