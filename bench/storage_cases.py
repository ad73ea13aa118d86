"""The cases about long queues and the disk. Each starts brokers of its own, fresh ones.

Penstock is started with a data directory. A build that has no storage is skipped with its reason,
but for the transient backlog, which is then measured in memory.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator

from rich.console import Console

from bench.backlog import measure_backlog
from bench.brokers import BROKERS
from bench.endurance import measure_reclaim, measure_recovery
from bench.results import Results
from bench.running import BrokerUnavailableError, RunningBroker


@dataclasses.dataclass(frozen=True, slots=True)
class StorageOptions:
    """How much; the defaults of the command are in `run.py`."""

    backlog_messages: int
    recovery_messages: int
    reclaim_messages: int
    seconds: float


StorageCase = Callable[[str, StorageOptions, Results, Console], None]


def storing(name: str) -> str:
    """Which broker of the table is started where messages must be durable."""
    return "penstock-data" if name == "penstock" else name


@contextlib.contextmanager
def fresh(name: str, results: Results) -> Iterator[RunningBroker]:
    broker = BROKERS[name]()
    results.versions[name] = broker.version
    try:
        yield broker
    finally:
        broker.stop()


def backlog(name: str, options: StorageOptions, results: Results, console: Console) -> None:
    for durable in (False, True):
        kind = "durable" if durable else "transient"
        with contextlib.ExitStack() as stack:
            try:
                broker = stack.enter_context(fresh(storing(name), results))
            except BrokerUnavailableError:
                if durable or storing(name) == name:
                    raise
                console.print(f"[yellow]backlog: {name} has no storage; measured in memory[/]")
                broker = stack.enter_context(fresh(name, results))
            sample = measure_backlog(
                broker, options.backlog_messages, options.seconds, durable=durable
            )
        results.backlog.append(sample)
        console.print(
            f"backlog {kind} {sample.broker}: drained at {sample.drain_rate:,.0f} msg/s,"
            f" {sample.drain_rate / sample.passing_rate:.0%} of passing;"
            f" peak {sample.resident_peak / 1e6:,.0f} MB"
        )


def recovery(name: str, options: StorageOptions, results: Results, console: Console) -> None:
    with fresh(storing(name), results) as broker:
        sample = measure_recovery(broker, options.recovery_messages)
    results.recovery.append(sample)
    console.print(
        f"recovery {sample.broker}: all messages available after {sample.full_seconds:.2f} s"
    )


def reclaim(name: str, options: StorageOptions, results: Results, console: Console) -> None:
    with fresh(storing(name), results) as broker:
        sample = measure_reclaim(broker, options.reclaim_messages)
    results.reclaim.append(sample)
    console.print(
        f"reclaim {sample.broker}: {sample.bytes_max / 1e6:,.0f} MB at most,"
        f" {sample.bytes_last / 1e6:,.0f} MB at the end"
    )


STORAGE_CASES: dict[str, StorageCase] = {
    "backlog": backlog,
    "recovery": recovery,
    "reclaim": reclaim,
}
