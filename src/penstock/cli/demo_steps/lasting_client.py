"""A client of the demo that outlives a server: it connects again until it is done, or gives up."""

import threading
import time
from abc import abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.cli.loading.client_ledger import ClientLedger
from penstock.client.blocking import BlockingConnection
from penstock.client.errors import ClientError

# Between two tries to reach a server that is not there.
RETRY_SECONDS: Final = 0.05

# A cluster that serves nobody for longer has failed the demo.
AWAY_SECONDS_MAX: Final = 60.0


@dataclass(frozen=True, slots=True)
class Errand:
    """The task of a client of the demo, and where it records it."""

    uri: str
    run: int
    exchange: str
    queues: tuple[str, ...]
    ledger: Path


class LastingClient(threading.Thread):
    """Held by the crash."""

    def __init__(self, name: str, errand: Errand, file: str) -> None:
        super().__init__(name=name, daemon=True)
        self._errand: Errand = errand
        self._book: ClientLedger = ClientLedger(errand.ledger / file)
        self.fault: str | None = None

    def run(self) -> None:
        deadline = time.monotonic() + AWAY_SECONDS_MAX
        while not self.is_done():
            before = self.progress()
            try:
                self.work_while_it_lasts()
            except ClientError as error:
                if self.progress() > before:
                    deadline = time.monotonic() + AWAY_SECONDS_MAX
                elif time.monotonic() > deadline:
                    self.fault = str(error)
                    break
                time.sleep(RETRY_SECONDS)
        self._book.close()

    @abstractmethod
    def is_done(self) -> bool:
        """Whether there is nothing more to do."""

    @abstractmethod
    def progress(self) -> int:
        """More after a connection that was good for something."""

    @abstractmethod
    def work_while_it_lasts(self) -> None:
        """On one connection, until it is lost or everything is done."""


def hang_up(connection: BlockingConnection) -> None:
    with suppress(ClientError):  # it was lost, or everything is done
        connection.close()
