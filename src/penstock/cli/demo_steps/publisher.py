"""A publisher that outlives its broker: what was not confirmed is sent again, and marked so.

Invariant: a sequence number is counted as confirmed once, when the broker has confirmed any sending
of it; until then it is sent again after every loss.
"""

import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.cli.demo_steps.marked_body import MARKED_SIZE, marked_body
from penstock.cli.loading.client_ledger import ClientLedger
from penstock.client import blocking
from penstock.client.blocking import BlockingConnection
from penstock.client.blocking_channel import BlockingChannel
from penstock.client.errors import ClientError
from penstock.formats.ledger_records import CONFIRMED, PUBLISHED, REFUSED
from penstock.wire.amqp091.content import PERSISTENT, BasicProperties

# Publishes without a confirm; also about as many as a kill leaves in doubt.
WINDOW: Final = 1000
BATCH: Final = 100

# Between two tries to reach a broker that is not there.
RETRY_SECONDS: Final = 0.05

# A broker that stays away longer has failed the demo.
AWAY_SECONDS_MAX: Final = 60.0


@dataclass(frozen=True, slots=True)
class Errand:
    """What a client of the story is to do, and where it writes it down."""

    uri: str
    run: int
    exchange: str
    queues: tuple[str, ...]
    ledger: Path


class Publisher(threading.Thread):
    """Held by the crash; its counts may be read at any time."""

    def __init__(self, errand: Errand, number: int, count: int, size: int) -> None:
        super().__init__(name=f"publisher {number}", daemon=True)
        self._errand: Errand = errand
        self._number: int = number
        self._count: int = count
        self._filling: bytes = b"x" * max(0, size - MARKED_SIZE)
        self._routing_key: str = f"demo.{number}"
        self._properties = BasicProperties(delivery_mode=PERSISTENT)
        self._next: int = 0
        # Sequences that a lost connection left without an answer.
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
        self.fault: str | None = None
        self._is_lost: bool = False
        self._book = ClientLedger(errand.ledger / f"{errand.run:08x}-publisher-{number}.led")
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

    def run(self) -> None:
        deadline = time.monotonic() + AWAY_SECONDS_MAX
        while self.confirmed + self.refused < self._count:
            before = self.confirmed
            try:
                self._publish_while_it_lasts()
            except ClientError as error:
                if self.confirmed > before:
                    deadline = time.monotonic() + AWAY_SECONDS_MAX
                elif time.monotonic() > deadline:
                    self.fault = str(error)
                    break
                time.sleep(RETRY_SECONDS)
        self._book.close()

    def _publish_while_it_lasts(self) -> None:
        # Each with a name of its own: tags begin anew with each, and the audit looks for them.
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
        """First what is in doubt, then what is new; whether there was anything."""
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
        # Before it is tried: a batch that broke off is in doubt as well.
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
        """Write down where sequences do not go on from the tag before."""
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


def hang_up(connection: BlockingConnection) -> None:
    with suppress(ClientError):  # it was lost, or everything is done
        connection.close()
