"""A faucet: publishes as fast as it is allowed to, in batches of frames encoded beforehand.

A message's frames are made once; per message only its stamp is written into a copy, so that the
broker and not this process is what is measured.
"""

import time
from contextlib import suppress
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Final

from penstock.cli.loading.client_ledger import ClientLedger
from penstock.cli.loading.latency import LatencyHistogram
from penstock.cli.loading.plan import Plan
from penstock.cli.loading.reports import FaucetFinished, Order, Progress, Ready
from penstock.cli.loading.stamp import MARK, STAMP
from penstock.client import blocking
from penstock.client.blocking_channel import BlockingChannel
from penstock.client.calls import limit_prefetch
from penstock.client.encoding import encode_publish
from penstock.client.errors import ClientError
from penstock.client.events import Confirmed
from penstock.client.uri import decode_uris
from penstock.formats.ledger_records import CONFIRMED, PUBLISHED, REFUSED
from penstock.wire.amqp091.content import PERSISTENT, BasicProperties

# One write of about this size keeps system calls rare and still fits a socket's buffer.
BATCH_OCTETS_MAX: Final = 60_000
BATCH_MESSAGES_MAX: Final = 200

# A faucet with a rate wakes this often: finer than any latency worth plotting on a busy machine.
TICKS_PER_SECOND: Final = 500

PROGRESS_NANOSECONDS: Final = 200_000_000
NANOSECONDS: Final = 1_000_000_000

# How long the last confirms may take before they count as unanswered.
LAST_CONFIRMS_SECONDS_MAX: Final = 30.0

# A broker under an alarm may take this long to read a publish; beyond it the run has failed.
STALL_SECONDS_MAX: Final = 60.0


class Faucet:
    """One publisher, held by its process."""

    def __init__(self, plan: Plan, publisher: int, pipe: Pipe) -> None:
        self._plan: Plan = plan
        self._publisher: int = publisher
        self._pipe: Pipe = pipe
        # A unique name, by which the broker's ledger identifies the publisher.
        name = f"load {plan.publisher_name(publisher)}"
        self._connection = blocking.connect(plan.uri, name=name, timeout=STALL_SECONDS_MAX)
        self._channel: BlockingChannel = self._connection.channel()
        if plan.confirm_window:
            self._channel.select_confirms(plan.confirm_window, keep_answers=True)
        self._frames: bytes = self._encode()
        self._stamp_at: int = self._frames.index(MARK)
        self._batch: int = self._batch_size()
        self._total: int | None = plan.share_of_publisher(publisher)
        self._published: int = 0
        self._confirmed: int = 0
        self._unpromised: list[int] = []
        self._latency: LatencyHistogram = LatencyHistogram()
        self._book: ClientLedger | None = None
        self._name: int = 0
        if plan.ledger is not None:
            self._begin_book(Path(plan.ledger), name)
        self._started: int = 0
        self._next_progress: int = 0
        self._stopped: bool = False

    def run(self) -> FaucetFinished:
        self._pipe.send(Ready())
        self._stopped = self._pipe.recv() is Order.STOP
        cpu_before = time.process_time()
        self._started = time.monotonic_ns()
        fault = None
        try:
            while (count := self._due()) > 0:
                self._publish(count)
                self._look_around()
            self._await_last()
        except ClientError as error:
            fault = str(error)
        self._take_answers()
        ended = time.monotonic_ns()
        self._unpromised.extend(tag - 1 for tag in self._channel.unanswered_tags())
        cpu_seconds = time.process_time() - cpu_before
        if self._book is not None:
            self._book.close()
        self._hang_up()
        return FaucetFinished(
            publisher=self._publisher,
            published=self._published,
            confirmed=self._confirmed,
            unpromised=tuple(self._unpromised),
            started=self._started,
            ended=ended,
            cpu_seconds=cpu_seconds,
            confirm_latency=self._latency.counts,
            fault=fault,
        )

    def _begin_book(self, folder: Path, connection: str) -> None:
        plan = self._plan
        name = plan.publisher_name(self._publisher)
        self._book = ClientLedger(folder / f"{plan.run:08x}-faucet-{self._publisher}.led")
        vhost = decode_uris(plan.uri)[0].vhost
        self._name = self._book.name(vhost, "", name)
        for queue in plan.queues_of_publisher(self._publisher):
            self._book.reaches(self._book.name(vhost, queue, name))
        if plan.confirm_window:
            session = self._book.session(vhost, connection, self._channel.number, name)
            # Tags count from 1, sequences from 0, and nothing else is published here.
            self._book.tagged(session, 1, 0)

    def _encode(self) -> bytes:
        plan = self._plan
        return encode_publish(
            channel=self._channel.number,
            exchange=plan.exchange,
            routing_key=plan.key_of(self._publisher),
            body=MARK + b"x" * (plan.size - len(MARK)),
            frame_max=self._connection.frame_max,
            properties=BasicProperties(delivery_mode=PERSISTENT if plan.persistent else 1),
        )

    def _batch_size(self) -> int:
        batch = min(BATCH_MESSAGES_MAX, max(1, BATCH_OCTETS_MAX // len(self._frames)))
        if self._plan.confirm_window:
            # Half a window: one half is in flight while the other is being confirmed.
            batch = min(batch, max(1, self._plan.confirm_window // 2))
        return batch

    def _due(self) -> int:
        """How many messages to publish next; 0 when the run is over. Waits for the rate."""
        plan = self._plan
        while not self._stopped:
            count = self._batch
            if self._total is not None:
                count = min(count, self._total - self._published)
            elapsed = time.monotonic_ns() - self._started
            if plan.seconds is not None and elapsed >= plan.seconds * NANOSECONDS:
                return 0
            if plan.rate is None or count <= 0:
                return count
            allowed = int(elapsed * plan.rate / plan.publishers / NANOSECONDS) + 1
            if allowed > self._published:
                return min(count, allowed - self._published)
            self._connection.turn(1 / TICKS_PER_SECOND)
            self._look_around()
        return 0

    def _publish(self, count: int) -> None:
        size = len(self._frames)
        frames = bytearray(self._frames * count)
        first = self._published
        now = time.monotonic_ns()
        at = self._stamp_at
        pack_into = STAMP.pack_into
        run, publisher = self._plan.run, self._publisher
        if self._plan.rate is None:
            for sequence in range(first, first + count):
                pack_into(frames, at, run, publisher, sequence, now)
                at += size
        else:
            # The time at which it was due: a stalled broker must not look fast because this process
            # was stalled, too.
            step = NANOSECONDS * self._plan.publishers / self._plan.rate
            for sequence in range(first, first + count):
                due = self._started + int(sequence * step)
                pack_into(frames, at, run, publisher, sequence, due)
                at += size
        self._published += count
        if self._book is not None:
            self._book.add(PUBLISHED, self._name, first, count)
        self._channel.publish_encoded(bytes(frames), count, now)

    def _look_around(self) -> None:
        """Handle the broker's answers, report progress to the crew, check whether to stop."""
        self._connection.turn()
        self._take_answers()
        now = time.monotonic_ns()
        if now < self._next_progress:
            return
        self._next_progress = now + PROGRESS_NANOSECONDS
        if self._book is not None:
            self._book.flush()
        blocked = self._connection.blocked
        self._pipe.send(
            Progress(published=self._published, confirmed=self._confirmed, blocked=blocked)
        )
        if self._pipe.poll():
            self._stopped = self._pipe.recv() is Order.STOP

    def _take_answers(self) -> None:
        answers = self._channel.take_confirmed()
        if not answers:
            return
        now = time.monotonic_ns()
        for answer in answers:
            self._settle(answer, now)

    def _settle(self, answer: Confirmed, now: int) -> None:
        for part in answer.settled:
            assert isinstance(part.note, int)
            count = len(part.tags)
            # Tags count from 1, sequences from 0, and nothing else is published here.
            if self._book is not None:
                event = REFUSED if answer.nack else CONFIRMED
                self._book.add_all(event, self._name, [tag - 1 for tag in part.tags])
            if answer.nack:
                self._unpromised.extend(tag - 1 for tag in part.tags)
            else:
                self._confirmed += count
                self._latency.record((now - part.note) // 1000, count)

    def _await_last(self) -> None:
        if not self._plan.confirm_window:
            # Any answered call comes after the broker has read all our publishes.
            self._channel.call(limit_prefetch(0))
            return
        deadline = time.monotonic() + LAST_CONFIRMS_SECONDS_MAX
        while self._channel.outstanding and time.monotonic() < deadline:
            self._connection.turn(0.05)
            self._look_around()

    def _hang_up(self) -> None:
        with suppress(ClientError):  # the records are complete; a failed close changes nothing
            self._connection.close()
