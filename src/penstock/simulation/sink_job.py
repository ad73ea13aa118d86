"""A job that writes in batches: it stages, commits, and repeats either when it is in doubt."""

from functools import partial
from typing import Final

from penstock.broker.errors import PreconditionFailed
from penstock.broker.message import NOBODY, Address, Message
from penstock.broker.sinks.message_rows import rows_of
from penstock.broker.sinks.sinks import commit, is_committed, stage_from
from penstock.broker.sinks.stages import StageKey
from penstock.broker.vhost import VirtualHost
from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.job import Job
from penstock.simulation.ledger import Ledger
from penstock.simulation.publisher import PERSISTENT
from penstock.simulation.sink_book import PLACES, SinkBook, StagedCopy
from penstock.simulation.workplace import Workplace
from penstock.wire.amqp091.content import encode_header

BATCH_COUNT: Final = 10
PARTITIONS_MAX: Final = 3
MESSAGES_MAX: Final = 6
CHUNK_MAX: Final = 4
BODY_BYTES_MAX: Final = 200
# Additional actions of a job: start a batch again, repeat a commit.
NEW_ATTEMPT_CHANCE: Final = 0.05
REPEAT_CHANCE: Final = 0.3
LOOK_CHANCE: Final = 0.1

STAGING: Final = "staging"
COMMITTING: Final = "committing"
PUBLISHING: Final = "publishing"


class SinkJob(Job):
    """Held by the run. Its sink has its own name."""

    def __init__(
        self, name: str, clock: VirtualClock, dice: Dice, ledger: Ledger, place: Workplace,
        book: SinkBook,
    ) -> None:  # fmt: skip
        super().__init__(name, clock, dice, ledger, place)
        self._book = book
        book.open_sinks.add(name)
        self._batch = -1
        self._attempt = -1
        self._phase = STAGING
        # The routes of each partition's messages, what this attempt makes of them, and how many of
        # those the broker confirmed as staged.
        self._routes: list[list[tuple[str, str]]] = []
        self._parts: list[list[StagedCopy]] = []
        self._staged: list[int] = []
        # Of what was asked to be staged and is not answered; 0 for nothing.
        self._chunk_size = 0
        self._next_batch()

    def _next_batch(self) -> None:
        self._batch += 1
        if self._batch == BATCH_COUNT:
            self._book.open_sinks.discard(self.name)
            return
        routes = list(PLACES)
        self._routes = [
            [self.dice.choose(routes) for _ in range(self.dice.between(0, MESSAGES_MAX))]
            for _ in range(self.dice.between(1, PARTITIONS_MAX))
        ]
        self._routes[0].append(self.dice.choose(routes))
        self._next_attempt()

    def _next_attempt(self) -> None:
        self._attempt += 1
        self._phase = STAGING
        batch = (self.name, self._batch)
        self._parts = []
        for partition, routes in enumerate(self._routes):
            copies: list[StagedCopy] = []
            for index, route in enumerate(routes):
                size = self.dice.between(0, BODY_BYTES_MAX)
                copy = StagedCopy(batch, partition, self._attempt, index, route, size)
                copies.append(copy)
                self._book.copies[copy.name] = copy
            self._parts.append(copies)
        self._staged = [0] * len(self._parts)
        self._chunk_size = 0

    def turn(self, vhost: VirtualHost, now: int) -> None:
        if self._batch == BATCH_COUNT:
            return
        if self.dice.chance(LOOK_CHANCE):
            for complaint in self._book.broken(self.node):
                self.ledger.violated(complaint)
        if self._phase == STAGING:
            if not self.is_calm and self.dice.chance(NEW_ATTEMPT_CHANCE):
                self.history.sighted("an attempt is given up")
                self._next_attempt()
            self._stage(vhost, now)
        elif self._phase == COMMITTING:
            self._commit(vhost, now)
        else:
            self._await(vhost, now)

    def answer_lost(self) -> None:
        """Ask again; or, as if another machine took over, begin the batch again."""
        self.history.sighted(f"the answer is lost while {self._phase}")
        if self.dice.chance(0.5):
            self._next_attempt()

    # Staging.

    def _stage(self, vhost: VirtualHost, now: int) -> None:
        for partition, copies in enumerate(self._parts):
            first = self._staged[partition]
            if first < len(copies):
                # A repeated request is the same.
                self._chunk_size = self._chunk_size or self.dice.between(1, CHUNK_MAX)
                chunk = copies[first : first + self._chunk_size]
                self._stage_chunk(vhost, partition, first, chunk, now)
                return
        self._phase = COMMITTING

    def _stage_chunk(
        self, vhost: VirtualHost, partition: int, first: int, chunk: list[StagedCopy], now: int
    ) -> None:
        key = StageKey(self.name, self._batch, partition, self._attempt)
        rows = rows_of([self._message(copy) for copy in chunk])
        was_committed = is_committed(vhost, self.name, self._batch)
        try:
            staged = stage_from(vhost, key, first, rows, now)
        except PreconditionFailed as error:
            self.ledger.violated(f"{self.name} cannot stage: {error}")
            return
        if was_committed:
            # An earlier attempt got through after all; the commit will say so.
            self.history.sighted("a batch turns out to be committed")
            staged = first + len(chunk)
        elif staged > first + len(chunk):
            self.ledger.violated(f"{self.name} staged {first + len(chunk)}, and has {staged}")
        self.history.add(f"{self.name} stages {key}: {first} to {staged}")
        self.when_safe(partial(self._chunk_staged, partition, staged))

    def _chunk_staged(self, partition: int, staged: int) -> None:
        self._staged[partition] = staged
        self._chunk_size = 0

    def _message(self, copy: StagedCopy) -> Message:
        header = encode_header(len(copy.body), PERSISTENT)
        properties = self.node.amqp091.read_properties(header)
        return Message(Address(*copy.route, b""), properties, copy.body, NOBODY)

    # Committing.

    def _commit(self, vhost: VirtualHost, now: int) -> None:
        batch = (self.name, self._batch)
        attempts = [
            (partition, self._attempt, len(copies)) for partition, copies in enumerate(self._parts)
        ]
        if is_committed(vhost, self.name, self._batch):
            self.history.sighted("a batch is committed twice")
            decided = self._book.asked[batch][-1]
        else:
            decided = dict.fromkeys(range(len(self._parts)), self._attempt)
            self._book.asked.setdefault(batch, []).append(decided)
        try:
            commit(vhost, self.name, self._batch, attempts, now)
        except PreconditionFailed as error:
            self.ledger.violated(f"{self.name} cannot commit: {error}")
            return
        self.history.add(f"{self.name} commits {self._batch}, attempt {self._attempt}")
        self.when_safe(partial(self._committed, batch, decided))

    def _committed(self, batch: tuple[str, int], decided: dict[int, int]) -> None:
        self._book.decided[batch] = decided
        self._phase = PUBLISHING

    def _await(self, vhost: VirtualHost, now: int) -> None:
        sink = vhost.sinks[self.name]
        if not self.is_calm and self.dice.chance(REPEAT_CHANCE):
            self._commit(vhost, now)
        elif not sink.pending:
            self.when_safe(self._published)

    def _published(self) -> None:
        self.history.add(f"{self.name} has published {self._batch}")
        self._book.published.add((self.name, self._batch))
        self._next_batch()
