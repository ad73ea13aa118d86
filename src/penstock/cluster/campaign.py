"""One attempt of a server to become the root: prevotes first, then votes.

Invariants: our own vote is among the votes only when it is durable; a vote counts by the store id
that the highest record among all votes binds to the voter's name.
"""

from penstock.cluster.promises import Promises
from penstock.cluster.record import ClusterRecord, newest
from penstock.cluster.rules import ElectionRules


class Vote:
    """What a voter answered with. Held by a campaign."""

    def __init__(self, store_id: bytes, record: ClusterRecord) -> None:
        self.store_id: bytes = store_id
        self.record: ClusterRecord = record


class Campaign:
    """Held by the election while it has no root."""

    def __init__(self, promises: Promises, rules: ElectionRules) -> None:
        self._promises: Promises = promises
        self._rules: ElectionRules = rules
        # Prevotes: since when they are asked for (-1: they are not), and the answers.
        self.asked_at: int = -1
        # When those that have not answered were last asked.
        self.repeated_at: int = -1
        self.prevotes: dict[str, Vote] = {}
        self.refused: list[str] = []
        # Votes of the epoch that we are a candidate in.
        self.votes: dict[str, Vote] = {}

    def ask(self, own_name: str, own: Vote, now: int) -> None:
        self.asked_at = now
        self.repeated_at = now
        self.prevotes = {own_name: own}
        self.refused = []

    def end(self) -> None:
        self.asked_at = -1
        self.prevotes = {}
        self.refused = []
        self.votes = {}

    def star(self, record: ClusterRecord) -> ClusterRecord:
        """The highest record among the votes and our own."""
        for vote in self.votes.values():
            record = newest(record, vote.record)
        return record

    def is_majority(self, votes: dict[str, Vote], record: ClusterRecord) -> bool:
        """R5."""
        if not self._rules.majority:
            return len(votes) > 0
        names = [name for name, vote in votes.items() if self.counts(record, name, vote.store_id)]
        return record.is_majority(names)

    def counts(self, record: ClusterRecord, name: str, store_id: bytes) -> bool:
        if not self._rules.store_ids:
            return record.find(name) is not None
        return self._promises.counts(record, name, store_id)

    def is_eligible(self, record: ClusterRecord, name: str, store_id: bytes) -> bool:
        """R2."""
        if not self.counts(record, name, store_id):
            return False
        return not self._rules.eligibility or name in record.in_sync
