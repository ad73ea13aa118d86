"""A consumer of a queue or of a stream that survives its server and records every message.

A queue redelivers what was not acknowledged. A stream is read on from the last offset that was
read.
"""

import threading
from typing import Final

from penstock.cli.demo_steps.lasting_client import Errand, LastingClient, hang_up
from penstock.cli.demo_steps.marked_body import read_body
from penstock.cli.loading.arrivals import Arrivals
from penstock.cli.loading.client_ledger import WrittenArrivals
from penstock.client import blocking
from penstock.client.blocking_channel import BlockingChannel
from penstock.client.calls import consume, limit_prefetch
from penstock.client.events import Delivered

PREFETCH: Final = 1000
LOOK_SECONDS: Final = 0.05
OFFSET: Final = "x-stream-offset"


class Consumer(LastingClient):
    """Held by the crash, which stops it."""

    def __init__(self, errand: Errand, queue: str, is_stream: bool) -> None:
        file = f"{errand.run:08x}-consumer-{queue}.led"
        super().__init__(f"consumer of {queue}", errand, file)
        self.queue: str = queue
        self._is_stream: bool = is_stream
        self._next_offset: int = 0
        self._stopping: threading.Event = threading.Event()
        self.arrivals: dict[int, Arrivals] = {}
        self._written: list[WrittenArrivals] = []
        # Messages counted once, and all deliveries.
        self.distinct: int = 0
        self.received: int = 0

    def stop(self) -> None:
        self._stopping.set()

    def is_done(self) -> bool:
        return self._stopping.is_set()

    def progress(self) -> int:
        return self.received

    def work_while_it_lasts(self) -> None:
        connection = blocking.connect(self._errand.uri, name=self.name)
        try:
            channel = connection.channel()
            channel.call(limit_prefetch(PREFETCH))
            self._begin(channel)
            while not self._stopping.is_set():
                batch = channel.receive_batch(LOOK_SECONDS)
                if batch:
                    self._enter(batch)
                    channel.ack(batch[-1], multiple=True)
        finally:
            hang_up(connection)

    def _begin(self, channel: BlockingChannel) -> None:
        arguments: dict[str, object] = {}
        if self._is_stream:
            arguments[OFFSET] = self._next_offset
        channel.call(consume(self.queue, arguments=arguments))

    def _enter(self, batch: list[Delivered]) -> None:
        for message in batch:
            publisher, sequence, again = read_body(message.body)
            arrivals = self.arrivals.get(publisher) or self._open_arrivals(publisher)
            self.distinct += arrivals.enter(sequence, message.redelivered or again)
        self.received += len(batch)
        if self._is_stream:
            self._next_offset = offset_of(batch[-1]) + 1
        for written in self._written:
            written.end_run()

    def _open_arrivals(self, publisher: int) -> Arrivals:
        name = f"{self._errand.run:08x}.{publisher}"
        arrivals = WrittenArrivals(self._book, self._book.name("/", self.queue, name))
        self._written.append(arrivals)
        self.arrivals[publisher] = arrivals
        return arrivals


def offset_of(message: Delivered) -> int:
    headers = message.properties.headers or {}
    offset = headers[OFFSET]
    assert isinstance(offset, int)
    return offset
