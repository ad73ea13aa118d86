"""A sink: consumes its queues and records every message."""

import time
from contextlib import suppress
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Final

from penstock.cli.loading.arrivals import Arrivals
from penstock.cli.loading.client_ledger import ClientLedger, WrittenArrivals
from penstock.cli.loading.latency import LatencyHistogram
from penstock.cli.loading.plan import Plan
from penstock.cli.loading.reports import Order, Progress, Ready, SinkFinished
from penstock.cli.loading.stamp import STAMP, STAMP_SIZE
from penstock.client import blocking
from penstock.client.blocking_channel import BlockingChannel
from penstock.client.calls import consume, limit_prefetch
from penstock.client.errors import ClientError
from penstock.client.events import Delivered
from penstock.client.uri import decode_uris

# How long one read waits; also how soon a sink notices that it may stop.
LOOK_SECONDS: Final = 0.05

PROGRESS_NANOSECONDS: Final = 200_000_000

# The stamp of a body that is too short for one: no run has this number.
FOREIGN: Final = (-1, 0, 0, 0)


class Sink:
    """One consuming connection, held by its process. Its consumer tags are its queues' names."""

    def __init__(self, plan: Plan, consumer: int, pipe: Pipe) -> None:
        self._plan: Plan = plan
        self._pipe: Pipe = pipe
        self._connection = blocking.connect(plan.uri, name="load")
        self._channel: BlockingChannel = self._connection.channel()
        if not plan.no_ack:
            self._channel.call(limit_prefetch(plan.prefetch))
        for queue in plan.queues_of_consumer(consumer):
            self._channel.call(consume(queue, consumer_tag=queue, no_ack=plan.no_ack))
        self._arrivals: dict[tuple[str, int], Arrivals] = {}
        self._book: ClientLedger | None = None
        self._written: list[WrittenArrivals] = []
        if plan.ledger is not None:
            self._vhost: str = decode_uris(plan.uri)[0].vhost
            self._book = ClientLedger(Path(plan.ledger) / f"{plan.run:08x}-sink-{consumer}.led")
        self._latency: LatencyHistogram = LatencyHistogram()
        self._delivered: int = 0
        self._foreign: int = 0
        self._last_delivery: int = 0
        self._next_progress: int = 0

    def run(self) -> SinkFinished:
        self._pipe.send(Ready())
        stopped = False
        fault = None
        cpu_before = time.process_time()
        try:
            while not stopped:
                batch = self._channel.receive_batch(LOOK_SECONDS)
                if batch:
                    self._enter(batch)
                    if not self._plan.no_ack:
                        self._channel.ack(batch[-1], multiple=True)
                stopped = self._look_around()
        except ClientError as error:
            fault = str(error)
        cpu_seconds = time.process_time() - cpu_before
        if self._book is not None:
            self._book.close()
        self._hang_up()
        return SinkFinished(
            delivered=self._delivered,
            foreign=self._foreign,
            last_delivery=self._last_delivery,
            cpu_seconds=cpu_seconds,
            pages={key: arrivals.page() for key, arrivals in self._arrivals.items()},
            latency=self._latency.counts,
            fault=fault,
        )

    def _enter(self, batch: list[Delivered]) -> None:
        """Called once per message, so it caches what the messages of a batch have in common."""
        now = time.monotonic_ns()
        self._last_delivery = now
        wanted = self._plan.run
        unpack_from = STAMP.unpack_from
        tag, publisher, arrivals = "", -1, Arrivals()
        left, left_count = 0, 0
        for message in batch:
            body = message.body
            run, sender, sequence, time_left = (
                unpack_from(body) if len(body) >= STAMP_SIZE else FOREIGN
            )
            if run != wanted:
                self._foreign += 1
                continue
            if sender != publisher or message.consumer_tag != tag:
                tag, publisher = message.consumer_tag, sender
                arrivals = self._arrivals_of(tag, publisher)
            if not arrivals.enter(sequence, message.redelivered):
                continue
            if time_left == left:
                left_count += 1
            else:
                self._record(now - left, left_count)
                left, left_count = time_left, 1
        self._record(now - left, left_count)
        for written in self._written:
            written.end_run()

    def _arrivals_of(self, queue: str, publisher: int) -> Arrivals:
        arrivals = self._arrivals.get((queue, publisher))
        if arrivals is not None:
            return arrivals
        if self._book is None:
            arrivals = Arrivals()
        else:
            name = self._plan.publisher_name(publisher)
            arrivals = WrittenArrivals(self._book, self._book.name(self._vhost, queue, name))
            self._written.append(arrivals)
        self._arrivals[queue, publisher] = arrivals
        return arrivals

    def _record(self, nanoseconds: int, count: int) -> None:
        if count:
            self._delivered += count
            self._latency.record(nanoseconds // 1000, count)

    def _look_around(self) -> bool:
        """Report progress to the crew; returns whether to stop."""
        now = time.monotonic_ns()
        if now < self._next_progress:
            return False
        self._next_progress = now + PROGRESS_NANOSECONDS
        self._pipe.send(Progress(delivered=self._delivered))
        if self._book is not None:
            self._book.flush()
        return self._pipe.poll() and self._pipe.recv() is Order.STOP

    def _hang_up(self) -> None:
        with suppress(ClientError):  # the records are complete; a failed close changes nothing
            self._connection.close()
