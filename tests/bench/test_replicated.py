"""The case `replicated` against fake brokers, and its verdicts from figures that need none."""

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from bench import report
from bench.cluster_cases import replicated_kinds
from bench.clusters import ClusterServer
from bench.disk_limit import DiskLimit, measure_disk
from bench.loader import Sample
from bench.rabbitmq_cluster import RabbitMQCluster
from bench.replicated import ReplicatedOptions, ReplicatedRun
from bench.replicated_loads import EpochChangedError, ReplicatedLoad, measure_cluster
from bench.replicated_modes import CATCHING_UP, PRIORITIES, PRIORITY, REPLICATED, STREAM
from bench.replicated_results import (
    BACKUPS,
    PENSTOCK,
    RABBITMQ,
    ROOT,
    SINGLE,
    Replicated,
    ReplicatedResults,
    ReplicatedSample,
)
from bench.results import Results
from bench.running import BrokerUnavailableError
from tests.bench.fake_broker import FakeBroker

LOAD = ReplicatedLoad(REPLICATED, 100, 1)


class FakeCluster:
    """A fake broker as the root, and this process in place of every server."""

    name = PENSTOCK
    version = "0 fake"

    def __init__(self, port: int, epochs: list[int]) -> None:
        self.servers = [ClusterServer(name, Path(), port, pid=os.getpid()) for name in "abc"]
        self._epochs = iter([*epochs, *([epochs[-1]] * 100)])
        self.is_stopped = False

    def root(self) -> ClusterServer:
        return self.servers[1]

    def epoch(self) -> int:
        return next(self._epochs)

    def stop(self) -> None:
        self.is_stopped = True


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker() as fake:
        yield fake


def test_the_cost_of_each_server_is_kept_with_the_roots_first(broker: FakeBroker) -> None:
    taken = measure_cluster(FakeCluster(broker.port, [1]), LOAD, "r", seconds=0.3)
    assert list(taken.microseconds) == [ROOT, *BACKUPS]
    assert taken.sample.delivered > 0
    assert sum(taken.microseconds.values()) == pytest.approx(taken.sample.broker_microseconds)


def test_a_window_in_which_the_epoch_changes_is_no_sample(broker: FakeBroker) -> None:
    with pytest.raises(EpochChangedError):
        measure_cluster(FakeCluster(broker.port, [1, 2]), LOAD, "r", seconds=0.1)


def test_a_round_in_which_the_epoch_changes_is_repeated_and_counted(broker: FakeBroker) -> None:
    cluster = FakeCluster(broker.port, [1, 2, 2, 2])
    options = ReplicatedOptions([100], [1], 1, 0.1, (PENSTOCK,))
    failures: list[str] = []
    run = ReplicatedRun(options, quiet(), failures, {}, {PENSTOCK: lambda: cluster})
    run.run()
    (measured,) = run.results.measured
    assert (measured.repeated, len(measured.samples), failures) == (1, 1, [])
    assert cluster.is_stopped


def test_a_cluster_whose_epoch_always_changes_is_given_up(broker: FakeBroker) -> None:
    cluster = FakeCluster(broker.port, list(range(100)))
    options = ReplicatedOptions([100], [1], 1, 0.1, (PENSTOCK,))
    failures: list[str] = []
    ReplicatedRun(options, quiet(), failures, {}, {PENSTOCK: lambda: cluster}).run()
    assert len(failures) == 1
    assert "the epoch changed" in failures[0]


def test_a_cluster_that_does_not_start_ends_neither_the_run_nor_the_others(
    broker: FakeBroker,
) -> None:
    def unavailable() -> FakeCluster:
        raise BrokerUnavailableError("not installed")

    options = ReplicatedOptions([100], [1], 1, 0.1, (RABBITMQ, PENSTOCK))
    failures: list[str] = []
    cluster = FakeCluster(broker.port, [1])
    start = {RABBITMQ: unavailable, PENSTOCK: lambda: cluster}
    run = ReplicatedRun(options, quiet(), failures, {}, start)
    run.run()
    assert [len(each.samples) for each in run.results.measured] == [0, 1]
    assert len(failures) == 1


def quiet() -> Console:
    return Console(file=io.StringIO())


def measured(
    broker: str, rate: int, costs: list[float], size: int = 100, mode: str = REPLICATED
) -> Replicated:
    sample = Sample(1.0, rate, rate, rate, sum(costs) * rate / 1e6, 0.1, 1000 * rate)
    roles = (ROOT, *BACKUPS)[: len(costs)]
    taken = ReplicatedSample(sample, dict(zip(roles, costs, strict=True)))
    return Replicated(broker, size, 1, [taken] * 3, mode=mode)


def found(*rows: Replicated, disk_bytes_per_second: float = 1e12) -> ReplicatedResults:
    return ReplicatedResults(DiskLimit(1000.0, disk_bytes_per_second), list(rows))


def mets(results: ReplicatedResults) -> list[bool | None]:
    return [verdict.met for verdict in results.verdicts(results.measured[0])]


def test_all_goals_can_be_met() -> None:
    assert mets(
        found(
            measured(PENSTOCK, 800_000, [1.5, 0.7, 0.6]),
            measured(RABBITMQ, 100_000, [10.0, 8.0, 8.0]),
            measured(SINGLE, 900_000, [1.0]),
        )
    ) == [True, True, True, True]


def test_each_goal_can_be_missed() -> None:
    assert mets(
        found(
            measured(PENSTOCK, 790_000, [1.6, 0.6, 0.8]),
            measured(RABBITMQ, 100_000, [10.0, 7.0, 6.0]),
            measured(SINGLE, 900_000, [1.0]),
        )
    ) == [False, False, False, False]


def test_larger_messages_have_a_lower_goal_for_the_rate() -> None:
    results = found(
        measured(PENSTOCK, 500_000, [1.5, 0.7, 0.6], 1000),
        measured(RABBITMQ, 100_000, [10.0, 8.0, 8.0], 1000),
    )
    assert mets(results) == [True, True, None, None]


def test_a_rate_at_the_limit_of_the_disk_is_enough() -> None:
    rows = (
        measured(PENSTOCK, 400_000, [1.5, 0.7, 0.6]),
        measured(RABBITMQ, 100_000, [10.0, 8.0, 8.0]),
    )
    # A message has a thousand bytes on the disk.
    assert mets(found(*rows, disk_bytes_per_second=450e6))[1] is True
    assert mets(found(*rows, disk_bytes_per_second=550e6))[1] is False


def test_streams_and_backups_that_catch_up_have_goals_of_their_own() -> None:
    streams = found(
        measured(PENSTOCK, 500_000, [1.5, 0.7, 0.6], mode=STREAM),
        measured(RABBITMQ, 100_000, [10.0, 8.0, 8.0], mode=STREAM),
        measured(SINGLE, 900_000, [1.0], mode=STREAM),
        # Those of another case are not compared.
        measured(RABBITMQ, 900_000, [0.1, 0.1, 0.1]),
    )
    assert mets(streams) == [True, True, True, True]
    catching_up = found(
        measured(PENSTOCK, 590_000, [9.0, 9.0, 9.0], mode=CATCHING_UP),
        measured(RABBITMQ, 100_000, [10.0, 8.0, 8.0], mode=CATCHING_UP),
    )
    assert mets(catching_up) == [False]


def test_a_case_is_measured_where_it_has_a_goal() -> None:
    options = ReplicatedOptions(
        [100, 1000], [1], 1, 0.1, (PENSTOCK, SINGLE), (PRIORITY, CATCHING_UP)
    )
    run = ReplicatedRun(options, quiet(), [], {}, {})
    assert [(each.name, each.broker) for each in run.results.measured] == [
        ("replicated-priority/100/1", PENSTOCK),
        ("replicated-priority/100/1", SINGLE),
        ("replicated-priority/1000/1", PENSTOCK),
        ("replicated-priority/1000/1", SINGLE),
        ("replicated-catching-up/100/1", PENSTOCK),
    ]


@pytest.mark.parametrize("mode", [PRIORITY, STREAM])
def test_queues_are_declared_as_the_case_needs_them(broker: FakeBroker, mode: str) -> None:
    measure_cluster(FakeCluster(broker.port, [1]), ReplicatedLoad(mode, 100, 1), "r", seconds=0.1)
    said = {PRIORITY: b"x-max-priorityI" + PRIORITIES.to_bytes(4, "big"), STREAM: b"stream"}
    assert any(said[mode] in declared for declared in broker.declared)


def test_only_the_cluster_of_penstock_is_judged() -> None:
    results = found(measured(RABBITMQ, 100_000, [10.0, 8.0, 8.0]))
    assert mets(results) == []


def test_the_table_and_the_json_file_have_every_server(tmp_path: Path) -> None:
    results = Results({"cores": 2}, {"seconds": 2.0})
    results.replicated = found(
        measured(PENSTOCK, 800_000, [1.25, 0.75, 0.65]), Replicated(RABBITMQ, 100, 1)
    )
    out = io.StringIO()
    report.show(results, Console(file=out, width=200))
    assert "backup 2 0.65" in out.getvalue()
    assert "failed" in out.getvalue()
    path = report.save(results, tmp_path / "replicated.json")
    document = json.loads(path.read_text())["replicated"]
    assert document["measured"][0]["microseconds"] == {
        "root": 1.25,
        "backup 1": 0.75,
        "backup 2": 0.65,
    }
    assert document["disk"]["flushes_per_second"] == 1000.0


def test_a_disk_has_a_limit() -> None:
    limit = measure_disk(seconds=0.05, flush_bytes=4096)
    assert limit.flushes_per_second > 0
    assert limit.bytes_per_second == pytest.approx(limit.flushes_per_second * 4096)


def test_penstocks_cluster_is_compared_with_a_single_server() -> None:
    assert replicated_kinds(["rabbitmq", "penstock"]) == (RABBITMQ, PENSTOCK, SINGLE)
    assert replicated_kinds(["rabbitmq"]) == (RABBITMQ,)


def test_without_the_package_a_cluster_of_rabbitmq_is_skipped_with_advice(tmp_path: Path) -> None:
    with pytest.raises(BrokerUnavailableError, match="apt-get install rabbitmq-server"):
        RabbitMQCluster(tmp_path)
