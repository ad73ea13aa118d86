"""The second part: publishing to queues and a stream, and the root is killed in the middle.

Every publish reaches two queues and a stream. The root of the cluster dies by SIGKILL when about half
of the messages are confirmed; a backup takes its place, and the clients find it by themselves. The
killed server is started again and joins as a backup.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.cli.demo_steps.cluster import DemoCluster
from penstock.cli.demo_steps.consumer import Consumer
from penstock.cli.demo_steps.lasting_client import Errand
from penstock.cli.demo_steps.publisher import Publisher
from penstock.cli.loading.arrivals import Account
from penstock.client import blocking
from penstock.client.calls import bind_queue, declare_exchange, declare_queue

EXCHANGE: Final = "demo"
QUEUES: Final = ("demo.orders", "demo.invoices")
STREAM: Final = "demo.events"
PUBLISHERS: Final = 2

LOOK_SECONDS: Final = 0.1
# Thousands of messages pass in a tenth of a second, and the kill must come in the middle of them.
AIM_SECONDS: Final = 0.002

# When nothing was received for this long, missing messages count as lost. Longer than an election
# takes on a busy machine.
DRAIN_SECONDS_MAX: Final = 20.0


class CrashFailed(Exception):
    """The part could not be completed; the text is for people."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The progress, for the display. Each sink is to receive `wanted` messages."""

    phase: str
    wanted: int
    confirmed: int
    received: int


Watcher = Callable[[Moment], None]


@dataclass(frozen=True, slots=True)
class CrashOutcome:
    """The result, as the clients recorded it."""

    published: int
    confirmed: int
    sent_again: int
    received: int
    account: Account
    # From the kill until another server was the root, and until the last publisher had a confirm
    # again.
    failover_seconds: float
    recovery_seconds: float
    seconds: float
    # The number of confirms when the root was killed.
    confirmed_at_kill: int
    # The names of the servers that were the root before and after.
    roots: tuple[str, str]
    cluster_cpu_seconds: float | None

    @property
    def sinks(self) -> int:
        return len(QUEUES) + 1


def set_up(uri: str) -> None:
    with blocking.connect(uri, name="demo") as connection, connection.channel() as channel:
        channel.call(declare_exchange(EXCHANGE, "topic", durable=True))
        stream: dict[str, object] = {"x-queue-type": "stream"}
        for name, arguments in (*((queue, {}) for queue in QUEUES), (STREAM, stream)):
            channel.call(declare_queue(name, durable=True, arguments=arguments))
            channel.call(bind_queue(name, EXCHANGE, "demo.#"))


class Crash:
    """One run of the second part. Held by the demo."""

    def __init__(
        self,
        cluster: DemoCluster,
        ledger: Path,
        run: int,
        messages: int,
        size: int,
        drain_seconds: float = DRAIN_SECONDS_MAX,
    ) -> None:
        self._cluster: DemoCluster = cluster
        self._drain_seconds: float = drain_seconds
        errand = Errand(cluster.amqp_uri, run, EXCHANGE, (*QUEUES, STREAM), ledger)
        shares = [messages // PUBLISHERS] * PUBLISHERS
        shares[0] += messages % PUBLISHERS
        self._messages: int = messages
        self._publishers = [Publisher(errand, i, share, size) for i, share in enumerate(shares)]
        self._consumers = [Consumer(errand, queue, is_stream=False) for queue in QUEUES]
        self._consumers.append(Consumer(errand, STREAM, is_stream=True))

    def play(self, watch: Watcher) -> CrashOutcome:
        set_up(self._cluster.amqp_uri)
        cpu_before = self._cluster.cpu_seconds()
        began = time.monotonic()
        for client in (*self._consumers, *self._publishers):
            client.start()
        try:
            self._wait(self._is_halfway, "publishing", watch, AIM_SECONDS)
            confirmed_at_kill = self._confirmed()
            victim = self._cluster.kill_root()
            killed = time.monotonic()
            watch(self._moment("the root is killed"))
            root = self._cluster.await_root()
            served = time.monotonic()
            self._wait(self._all_are_back, "recovering", watch)
            self._cluster.servers[victim].start()
            self._wait(lambda: not any(p.is_alive() for p in self._publishers), "publishing", watch)
            self._drain(watch)
            seconds = time.monotonic() - began
        finally:
            for consumer in self._consumers:
                consumer.stop()
        for consumer in self._consumers:
            consumer.join()
        cpu_after = self._cluster.cpu_seconds()
        return CrashOutcome(
            published=sum(p.published for p in self._publishers),
            confirmed=self._confirmed(),
            sent_again=sum(p.sent_again for p in self._publishers),
            received=sum(c.received for c in self._consumers),
            account=self._settle(),
            failover_seconds=served - killed,
            recovery_seconds=max(served, *(p.back_at for p in self._publishers)) - killed,
            seconds=seconds,
            confirmed_at_kill=confirmed_at_kill,
            roots=(victim, root),
            cluster_cpu_seconds=(
                None if cpu_before is None or cpu_after is None else cpu_after - cpu_before
            ),
        )

    def _is_halfway(self) -> bool:
        return self._confirmed() * 2 >= self._messages

    def _all_are_back(self) -> bool:
        """A publisher that had finished before the kill does not reconnect."""
        return all([p.back_at > 0 or not p.is_alive() for p in self._publishers])

    def _confirmed(self) -> int:
        return sum(publisher.confirmed for publisher in self._publishers)

    def _moment(self, phase: str) -> Moment:
        return Moment(
            phase,
            self._messages,
            self._confirmed(),
            sum(consumer.distinct for consumer in self._consumers),
        )

    def _wait(
        self,
        done: Callable[[], bool],
        phase: str,
        watch: Watcher,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        shown = 0.0
        while not done():
            self._check_clients()
            if time.monotonic() - shown >= LOOK_SECONDS:
                shown = time.monotonic()
                watch(self._moment(phase))
            time.sleep(look_seconds)

    def _check_clients(self) -> None:
        for name, fault in [
            *((publisher.name, publisher.fault) for publisher in self._publishers),
            *((consumer.name, consumer.fault) for consumer in self._consumers),
        ]:
            if fault is not None:
                raise CrashFailed(f"{name}: {fault}")

    def _drain(self, watch: Watcher) -> None:
        """Wait until every sink has everything, or nothing was received for a while."""
        received = -1
        changed = time.monotonic()
        while any(consumer.distinct < self._messages for consumer in self._consumers):
            moment = self._moment("draining")
            watch(moment)
            if moment.received != received:
                received, changed = moment.received, time.monotonic()
            elif time.monotonic() - changed > self._drain_seconds:
                return
            time.sleep(LOOK_SECONDS)

    def _settle(self) -> Account:
        account = Account()
        for consumer in self._consumers:
            for number, publisher in enumerate(self._publishers):
                arrivals = consumer.arrivals.get(number)
                pages = [] if arrivals is None else [arrivals.page()]
                unpromised = publisher.unpromised()
                account.settle(consumer.queue, number, publisher.published, unpromised, pages)
        return account
