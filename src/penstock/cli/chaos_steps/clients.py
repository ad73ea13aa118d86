"""The clients of a chaos run: senders with confirms, receivers that acknowledge in transactions.

A sender does not repeat what is in doubt, so that a message that comes twice was sent once. A receiver
commits its acknowledgements, so that it knows which are completed.
"""

import threading
import time
from abc import abstractmethod
from contextlib import suppress
from typing import Final

from penstock.cli.chaos_steps.ledger import ChaosLedger
from penstock.client import blocking
from penstock.client.blocking import BlockingConnection
from penstock.client.calls import commit, consume, limit_prefetch, select_transactions
from penstock.client.errors import ClientError
from penstock.client.events import Delivered
from penstock.wire.amqp091.content import PERSISTENT, BasicProperties

# Published before their confirms are awaited.
BATCH_COUNT: Final = 20
PREFETCH_COUNT: Final = 100
# Between two attempts to connect, and while a queue is empty.
PAUSE_SECONDS: Final = 0.05
# For an answer: an election on a busy machine takes a few seconds.
ANSWER_SECONDS: Final = 20.0


class ChaosClient(threading.Thread):
    """Connects again whatever happens, until it is told to end. Held by the run."""

    def __init__(self, name: str, uri: str, ledger: ChaosLedger) -> None:
        super().__init__(name=name, daemon=True)
        self._uri = uri
        self._ledger = ledger
        self._is_ending = threading.Event()
        self.lost_count = 0

    def run(self) -> None:
        while not self._is_ending.is_set():
            try:
                connection = blocking.connect(self._uri, name=self.name, timeout=ANSWER_SECONDS)
                try:
                    self.work(connection)
                finally:
                    with suppress(ClientError):
                        connection.close()
            except ClientError:
                self.lost_count += 1
                time.sleep(PAUSE_SECONDS)

    def is_ending(self) -> bool:
        return self._is_ending.is_set()

    def end(self) -> None:
        self._is_ending.set()
        self.join()

    @abstractmethod
    def work(self, connection: BlockingConnection) -> None:
        """On one connection, until it is lost or the client ends."""


class ChaosSender(ChaosClient):
    """Publishes to its queue, and one message of each batch to a queue that nobody reads."""

    def __init__(
        self,
        number: int,
        uri: str,
        ledger: ChaosLedger,
        queue: str,
        kept: ChaosLedger,
        kept_queue: str,
    ) -> None:
        super().__init__(f"sender {number}", uri, ledger)
        self._number = number
        self._queue = queue
        self._kept = kept
        self._kept_queue = kept_queue
        self._count = 0

    def work(self, connection: BlockingConnection) -> None:
        channel = connection.channel()
        channel.select_confirms()
        properties = BasicProperties(delivery_mode=PERSISTENT)
        while not self.is_ending():
            bodies = [b"%d-%d" % (self._number, self._count + at) for at in range(BATCH_COUNT)]
            self._count += BATCH_COUNT
            messages = [(self._queue, body) for body in bodies]
            messages.append((self._kept_queue, bodies[0]))
            try:
                channel.publish_batch("", messages, properties, mandatory=True)
                channel.wait_for_confirms()
            except ClientError:
                self._ledger.doubt(bodies)
                self._kept.doubt(bodies[:1])
                raise
            self._ledger.confirm(bodies)
            self._kept.confirm(bodies[:1])
            time.sleep(PAUSE_SECONDS)


class ChaosReceiver(ChaosClient):
    """Takes what comes and completes it."""

    def __init__(self, number: int, uri: str, ledger: ChaosLedger, queue: str) -> None:
        super().__init__(f"receiver {number}", uri, ledger)
        self._queue = queue

    def work(self, connection: BlockingConnection) -> None:
        channel = connection.channel()
        channel.call(select_transactions())
        channel.call(limit_prefetch(PREFETCH_COUNT))
        channel.call(consume(self._queue))
        while not self.is_ending():
            batch: list[Delivered] = channel.receive_batch(PAUSE_SECONDS)
            if not batch:
                continue
            bodies = [bytes(message.body) for message in batch]
            for message in batch:
                self._ledger.deliver(bytes(message.body), message.redelivered)
            channel.ack(batch[-1], multiple=True)
            channel.call(commit())
            self._ledger.complete(bodies)
