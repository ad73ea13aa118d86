"""One chaos run: a cluster of processes, clients, trouble, and the verdict."""

from __future__ import annotations

import http.client
import json
import random
import time
from base64 import b64encode
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.cli.chaos_steps.clients import ANSWER_SECONDS, ChaosReceiver, ChaosSender
from penstock.cli.chaos_steps.ledger import ChaosLedger
from penstock.cli.chaos_steps.trouble import Trouble
from penstock.cli.chaos_steps.verdict import Check, checks_of
from penstock.cli.local_servers import LocalServer, LocalServers, ServersFailed
from penstock.client import blocking
from penstock.client.calls import commit, declare_queue, rollback, select_transactions
from penstock.client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.client.blocking_channel import BlockingChannel

T = TypeVar("T")

QUEUES: Final = ("chaos-1", "chaos-2")
# Nobody reads it before the end: all servers must have the same then.
KEPT_QUEUE: Final = "chaos-kept"
# With all servers running, this long without a confirm is a stall. An election takes two seconds, on
# an idle machine.
STALL_SECONDS: Final = 60.0
# For the cluster to become whole, and for each server to become the root, at the end.
SETTLE_SECONDS: Final = 180.0
LOOK_SECONDS: Final = 0.1
PROGRESS_SECONDS: Final = 10.0


class ChaosRun:
    """Held by the command."""

    def __init__(self, folder: Path, servers: int, seed: int, say: Callable[[str], None]) -> None:
        self.cluster = LocalServers(folder, servers)
        self.ledger = ChaosLedger()
        # Of the queue that nobody reads.
        self.kept = ChaosLedger()
        self.trouble = Trouble(self.cluster, random.Random(seed), self._tell)
        self._say = say
        self._stalls: list[str] = []
        self._began = 0.0
        self._told = 0.0
        # What each server had of the queue that nobody read.
        self._copies: dict[str, list[bytes]] = {}
        self._left_over = 0

    def play(self, minutes: float) -> list[Check]:
        """Raises `ServersFailed` when a server does not start, or the cluster does not recover."""
        cluster = self.cluster
        cluster.format()
        cluster.start_all()
        self._await_root()
        self._with_channel(self._declare)
        uri = cluster.uri()
        senders = [
            ChaosSender(number, uri, self.ledger, queue, self.kept, KEPT_QUEUE)
            for number, queue in enumerate(QUEUES)
        ]
        receivers = [
            ChaosReceiver(number, uri, self.ledger, queue) for number, queue in enumerate(QUEUES)
        ]
        for client in (*senders, *receivers):
            client.start()
        self._began = time.monotonic()
        while time.monotonic() < self._began + minutes * 60 and not cluster.is_stopping:
            self.trouble.make()
            self._await_confirm()
        for client in (*senders, *receivers):
            client.end()
        self._await_whole()
        self._drain()
        self._compare()
        return checks_of(self.ledger, self.kept, self._copies, self._stalls, self._left_over)

    def _tell(self) -> None:
        """The progress, now and then."""
        now = time.monotonic()
        if now - self._told < PROGRESS_SECONDS:
            return
        self._told = now
        ledger = self.ledger
        kinds = ", ".join(f"{count} {kind.value}" for kind, count in self.trouble.counts.items())
        self._say(
            f"{now - self._began:5.0f} s  {kinds}; {len(ledger.confirmed)} confirmed, "
            f"{len(ledger.completed)} completed, {len(ledger.lies)} violations"
        )

    # Waiting.

    def _await_confirm(self) -> None:
        since = time.monotonic()
        while self.ledger.last_confirm < since and not self.cluster.is_stopping:
            if time.monotonic() > since + STALL_SECONDS:
                self._stalls.append(f"no confirm for {STALL_SECONDS:.0f} s though all servers run")
                return
            time.sleep(LOOK_SECONDS)
            self._tell()

    def _until(self, what: str, find: Callable[[], T | None]) -> T:
        until = time.monotonic() + SETTLE_SECONDS
        while True:
            found = find()
            if found:
                return found
            if self.cluster.is_stopping:
                raise ServersFailed("interrupted, so there is no verdict")
            if time.monotonic() > until:
                raise ServersFailed(f"not within {SETTLE_SECONDS:.0f} s: {what}")
            time.sleep(LOOK_SECONDS)

    def _root(self) -> LocalServer | None:
        return next((one for one in self.cluster.servers if one.role() == "active"), None)

    def _await_root(self) -> LocalServer:
        return self._until("there is a root", self._root)

    def _await_whole(self) -> None:
        """All servers are in sync with the root, and have everything."""

        def is_whole() -> bool:
            root = self._root()
            members = {} if root is None else root.status().get("members")
            if not isinstance(members, list) or len(members) != len(self.cluster.servers):
                return False
            return all(one["in_sync"] and one["lag_operations"] in {0, -1} for one in members)

        self._until("all servers are in sync", is_whole)

    def _with_channel(self, use: Callable[[BlockingChannel], T]) -> T:
        """Something that may be done again when the root changes meanwhile."""

        def attempt() -> list[T]:
            try:
                with blocking.connect(self.cluster.uri(), timeout=ANSWER_SECONDS) as connection:
                    return [use(connection.channel())]
            except ClientError:
                return []

        return self._until("a client has done its work", attempt)[0]

    # The end.

    def _declare(self, channel: BlockingChannel) -> None:
        for queue in (*QUEUES, KEPT_QUEUE):
            channel.call(declare_queue(queue, durable=True))

    def _drain(self) -> None:
        """Deliver and complete what is left in the queues."""
        for queue in QUEUES:
            self._with_channel(lambda channel, queue=queue: self._take_all(channel, queue))  # type: ignore[misc]
        for queue in QUEUES:
            answer = self._with_channel(
                lambda channel, queue=queue: channel.call(declare_queue(queue, passive=True))  # type: ignore[misc]
            )
            self._left_over += answer.message_count

    def _take_all(self, channel: BlockingChannel, queue: str) -> bool:
        channel.call(select_transactions())
        bodies: list[bytes] = []
        while (message := channel.get(queue)) is not None:
            self.ledger.deliver(bytes(message.body), message.redelivered)
            bodies.append(bytes(message.body))
            channel.ack(message)
        channel.call(commit())
        self.ledger.complete(bodies)
        return True

    def _compare(self) -> None:
        """Every server becomes the root once, and says what it has."""
        for server in self.cluster.servers:
            self._copies[server.name] = self._until(
                f"server {server.name!r} is the root and tells what it has",
                lambda server=server: self._copy_of(server),  # type: ignore[misc]
            )

    def _copy_of(self, server: LocalServer) -> list[bytes] | None:
        root = self._root()
        if root is not None and root is not server:
            self._await_whole()
            hand_over(root, server.name)
            return None
        if root is None:
            return None
        try:
            with blocking.connect(self.cluster.uri(), timeout=ANSWER_SECONDS) as connection:
                found = looked_at(connection.channel(), KEPT_QUEUE)
        except ClientError:
            return None
        return found if self._root() is server else None


def looked_at(channel: BlockingChannel, queue: str) -> list[bytes]:
    """Everything in a queue, in order; it stays."""
    channel.call(select_transactions())
    bodies: list[bytes] = []
    while (message := channel.get(queue)) is not None:
        bodies.append(bytes(message.body))
    channel.call(rollback())
    return bodies


def hand_over(root: LocalServer, name: str) -> None:
    """Ask for it; whether it was done is seen by who is the root."""
    headers = {
        "Authorization": f"Basic {b64encode(b'guest:guest').decode()}",
        "Content-Type": "application/json",
    }
    connection = http.client.HTTPConnection(root.fact("http"), timeout=ANSWER_SECONDS)
    with suppress(OSError, http.client.HTTPException):
        body = json.dumps({"name": name})
        connection.request("POST", "/api/cluster/hand-over", body, headers)
        connection.getresponse().read()
    connection.close()
