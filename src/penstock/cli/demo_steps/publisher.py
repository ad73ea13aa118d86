"""A publisher that survives its server: unconfirmed messages are sent again, and marked as
repeated.

Invariant: a sequence number is counted as confirmed once, when the broker has confirmed any sending
of it; until then it is sent again after every loss.
"""

import time
from collections import deque
from typing import Final

from penstock.cli.demo_steps.lasting_client import RETRY_SECONDS, Errand, LastingClient, hang_up
from penstock.cli.demo_steps.marked_body import MARKED_SIZE, marked_body
from penstock.client import blocking
from penstock.client.blocking_channel import BlockingChannel
from penstock.client.errors import ClientError
from penstock.formats.ledger_records import CONFIRMED, PUBLISHED, REFUSED
from penstock.wire.amqp091.content import PERSISTENT, BasicProperties

# Publishes without a confirm; also about as many as a kill leaves in doubt.
WINDOW: Final = 1000
BATCH: Final = 100


class Publisher(LastingClient):
    """Held by the crash; its counts may be read at any time."""

    def __init__(self, errand: Errand, number: int, count: int, size: int) -> None:
        file = f"{errand.run:08x}-publisher-{number}.led"
        super().__init__(f"publisher {number}", errand, file)
        self._number: int = number
        self._count: int = count
        self._filling: bytes = b"x" * max(0, size - MARKED_SIZE)
        self._routing_key: str = f"demo.{number}"
        self._properties = BasicProperties(delivery_mode=PERSISTENT)
        self._next: int = 0
        # Sequences without an answer when a connection was lost.
        self._doubtful: deque[int] = deque()
        # Sequences by tag on the present connection.
        self._sent: list[int] = []
        self._settled: bytearray = bytearray(count)
        self._refused_sequences: frozenset[int] = frozenset()
        self.confirmed: int = 0
        self.refused: int = 0
        self.sent_again: int = 0
        # When the first confirm after a loss came, by the monotonic clock.
        self.back_at: float = 0.0
        self._is_lost: bool = False
        name = f"{errand.run:08x}.{number}"
        self._publisher_name: str = name
        self._connections: int = 0
        self._session: int = 0
        self._name: int = self._book.name("/", "", name)
        for queue in errand.queues:
            self._book.reaches(self._book.name("/", queue, name))

    @property
    def published(self) -> int:
        return self._next

    def unpromised(self) -> frozenset[int]:
        """Sequences that the broker refused or never answered."""
        return self._refused_sequences | {s for s in range(self._next) if not self._settled[s]}

    def is_done(self) -> bool:
        return self.confirmed + self.refused >= self._count

    def progress(self) -> int:
        return self.confirmed

    def work_while_it_lasts(self) -> None:
        # Each connection has its own name: tags start again with each, and the audit needs both.
        self._connections += 1
        name = f"{self._publisher_name}.{self._connections}"
        connection = blocking.connect(self._errand.uri, name=name)
        channel: BlockingChannel | None = None
        self._sent.clear()
        try:
            channel = connection.channel()
            channel.select_confirms(WINDOW, keep_answers=True)
            self._session = self._book.session("/", name, channel.number, self._publisher_name)
            while self.confirmed + self.refused < self._count:
                if not self._publish_some(channel):
                    connection.turn(RETRY_SECONDS)
                self._take_answers(channel)
        except ClientError:
            self._is_lost = True
            if channel is not None:
                self._take_answers(channel)
            self._doubtful.extend(s for s in dict.fromkeys(self._sent) if not self._settled[s])
            raise
        finally:
            hang_up(connection)

    def _publish_some(self, channel: BlockingChannel) -> bool:
        """Publish messages in doubt first, then new ones; returns whether there was anything."""
        again = bool(self._doubtful)
        if again:
            chosen = [self._doubtful.popleft() for _ in range(min(BATCH, len(self._doubtful)))]
            self.sent_again += len(chosen)
        else:
            chosen = list(range(self._next, min(self._next + BATCH, self._count)))
            if not chosen:
                return False
            self._next = chosen[-1] + 1
            self._book.add(PUBLISHED, self._name, chosen[0], len(chosen))
        self._tag(chosen)
        # Noted before it is sent: an interrupted batch is in doubt as well.
        self._sent.extend(chosen)
        now = time.monotonic_ns()
        errand = self._errand
        bodies = [
            (
                self._routing_key,
                marked_body(errand.run, self._number, sequence, now, again) + self._filling,
            )
            for sequence in chosen
        ]
        channel.publish_batch(errand.exchange, bodies, self._properties)
        return True

    def _tag(self, chosen: list[int]) -> None:
        """Record where sequences do not continue from the previous tag."""
        before = self._sent[-1] if self._sent else None
        for tag, sequence in enumerate(chosen, len(self._sent) + 1):
            if before is None or sequence != before + 1:
                self._book.tagged(self._session, tag, sequence)
            before = sequence

    def _take_answers(self, channel: BlockingChannel) -> None:
        for answer in channel.take_confirmed():
            if self._is_lost:
                self._is_lost = False
                self.back_at = time.monotonic()
            for part in answer.settled:
                self._settle([self._sent[tag - 1] for tag in part.tags], answer.nack)

    def _settle(self, answered: list[int], nack: bool) -> None:
        new = [sequence for sequence in answered if not self._settled[sequence]]
        for sequence in new:
            self._settled[sequence] = 1
        self._book.add_all(REFUSED if nack else CONFIRMED, self._name, new)
        if nack:
            self.refused += len(new)
            self._refused_sequences |= frozenset(new)
        else:
            self.confirmed += len(new)
