"""The table and the JSON file, from figures that need no broker."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from bench import report
from bench.backlog import BacklogSample
from bench.cases import Case
from bench.endurance import ReclaimSample, RecoverySample
from bench.footprint import IdleSample, Startup
from bench.goals import Ratios
from bench.latency import LatencySample, percentile
from bench.loader import Sample
from bench.results import Flatness, Latency, Results, Throughput
from bench.run import parse


def sample(rate: int, microseconds: float) -> Sample:
    return Sample(
        seconds=2.0,
        published=2 * rate,
        confirmed=0,
        delivered=2 * rate,
        broker_cpu_seconds=2 * rate * microseconds / 1e6,
        loader_cpu_seconds=0.1,
    )


def results() -> Results:
    case = Case("transient", 100, 1)
    found = Results({"cores": 2}, {"seconds": 2.0}, {"rabbitmq": "3.10.8"})
    found.throughput = [
        Throughput(case, "rabbitmq", [sample(10_000, 30.0)] * 3),
        Throughput(
            case, "penstock", [sample(90_000, 2.0), sample(100_000, 1.0), sample(110_000, 2.2)]
        ),
    ]
    costs = {1: sample(1000, 2.0), 10_000: sample(1000, 3.0)}
    found.flatness = [Flatness("penstock", "queues", (1, 10_000), costs)]
    late = {"p50": 1.0, "p99": 2.0}
    found.latency = [
        Latency("penstock", "half", LatencySample(1000, 999, 3000, {"p50": 80.0}, late)),
        Latency("penstock", "equal", LatencySample(1000, 500, 3000, {"p50": 9e5}, late)),
    ]
    found.idle = {"penstock": IdleSample(10_000, 3.0, 25_000.0)}
    found.startup = {"penstock": [Startup(0.25, 0.3), Startup(0.1, 0.2), Startup(0.8, 0.9)]}
    return found


def text_of(found: Results) -> str:
    out = io.StringIO()
    report.show(found, Console(file=out, width=200))
    return out.getvalue()


def test_figures_are_medians_over_the_rounds() -> None:
    measured = results().throughput[1]
    assert measured.rate == 100_000
    assert measured.broker_microseconds == pytest.approx(2.0)


def test_ratios_are_to_rabbitmq_in_the_same_case() -> None:
    found = results()
    ratios = found.ratios(found.throughput[1])
    assert ratios.rate == pytest.approx(10.0)
    assert ratios.cpu == pytest.approx(1 / 15)
    assert found.ratios(found.throughput[0]) == Ratios()


def test_the_table_says_which_goals_are_met_and_which_are_missed() -> None:
    text = text_of(results())
    assert "rate >= 8x met" in text
    assert "CPU <= 1/12 met" in text
    assert "CPU <= 2.5 us met" in text
    assert "stretch: CPU <= 1.8 us missed" in text
    assert "<= 1.3x missed" in text
    assert "< 20 kB missed" in text
    assert "< 0.5 s met" in text
    assert "ready 250 ms, first login 300 ms" in text
    assert "of 1,000: overloaded" in text


def test_without_rabbitmq_ratios_are_not_judged_but_costs_are() -> None:
    found = results()
    del found.throughput[0]
    text = text_of(found)
    assert "rate >= 8x not compared" in text
    assert "CPU <= 2.5 us met" in text


def test_an_uncompiled_build_is_judged_by_the_goals_of_the_pure_one() -> None:
    found = results()
    found.versions["penstock"] = "0.1.0 pure"
    text = text_of(found)
    assert "rate >= 3x met" in text
    assert "CPU <= 2.5 us" not in text


def test_a_case_without_samples_shows_as_failed_with_its_reason() -> None:
    found = results()
    found.throughput.append(Throughput(Case("confirm", 100, 1), "penstock"))
    found.failures.append("it broke")
    text = text_of(found)
    assert "failed" in text
    assert "it broke" in text
    assert json.dumps(found.as_json())


def test_the_json_holds_facts_raw_samples_and_verdicts(tmp_path: Path) -> None:
    path = report.save(results(), tmp_path / "out.json")
    document = json.loads(path.read_text())
    assert document["machine"] == {"cores": 2}
    penstock = document["throughput"][1]
    assert penstock["case"] == {"mode": "transient", "size": 100, "pairs": 1}
    assert [raw["delivered"] for raw in penstock["samples"]] == [180_000, 200_000, 220_000]
    assert penstock["rate_ratio"] == pytest.approx(10.0)
    assert [goal["met"] for goal in penstock["goals"]] == [True, True, True, False]
    assert document["flatness"][0]["growth"] == pytest.approx(1.5)
    assert document["startup"]["penstock"][0] == {"ready": 0.25, "login": 0.3}


def test_a_count_that_could_not_be_measured_is_not_called_flat() -> None:
    found = results()
    del found.flatness[0].samples[10_000]
    assert "<= 1.3x missed" in text_of(found)
    assert json.loads(json.dumps(found.as_json()))["flatness"][0]["growth"] is None


def test_percentiles_are_taken_from_the_ordered_values() -> None:
    ordered = list(range(1000))
    assert percentile(ordered, 50) == 500
    assert percentile(ordered, 99.9) == 999
    assert percentile([7], 99.9) == 7


def test_unknown_cases_and_brokers_are_refused() -> None:
    for arguments in (["--cases", "nonsense"], ["--brokers", "nonsense"]):
        with pytest.raises(SystemExit):
            parse(arguments)


def test_quick_means_one_short_round_of_small_messages() -> None:
    options = parse(["--quick", "--brokers", "penstock", "--pure"])
    assert (options.rounds, options.sizes) == (1, [100])
    assert options.brokers == ["penstock", "penstock-pure"]


def durable_results(size: int) -> Results:
    found = Results({}, {})
    case = Case("durable", size, 1)
    found.throughput = [
        Throughput(case, "rabbitmq", [sample(10_000, 30.0)]),
        Throughput(case, "rabbitmq-quorum", [sample(20_000, 30.0)]),
        Throughput(case, "penstock-data", [sample(100_000, 4.0)]),
    ]
    return found


def test_durability_is_judged_beside_classic_and_quorum_queues() -> None:
    verdicts = durable_results(100).verdicts(durable_results(100).throughput[2])
    assert [(verdict.goal, verdict.met) for verdict in verdicts] == [
        ("rate >= 8x", True),
        ("rate >= 8x quorum", False),
        ("CPU <= 5 us", True),
    ]


def test_large_durable_messages_have_a_rate_to_reach_and_no_cost() -> None:
    verdicts = durable_results(1000).verdicts(durable_results(1000).throughput[2])
    assert [verdict.goal for verdict in verdicts] == ["rate >= 8x", "rate >= 8x quorum"]


def backlog(messages: int, drain_seconds: float) -> BacklogSample:
    return BacklogSample(
        broker="penstock-data",
        durable=True,
        messages=messages,
        passing_rate=100_000.0,
        short_drain_rate=200_000.0,
        fill_seconds=1.0,
        fill_cpu_seconds=1.0,
        drain_seconds=drain_seconds,
        drain_cpu_seconds=1.0,
        resident_before=50_000_000,
        resident_peak=600_000_000,
        resident_filling=[(1_000_000, 60_000_000)],
        resident_draining=[],
        data_bytes_full=1_000_000_000,
        data_bytes_drained=0,
    )


def test_a_long_queue_is_judged_by_its_draining_and_its_memory() -> None:
    found = Results({}, {})
    found.backlog = [backlog(10_000_000, drain_seconds=100)]
    text = text_of(found)
    assert ">= 80% of passing met" in text
    assert "peak < 500 MB missed" in text
    assert json.loads(json.dumps(found.as_json()))["backlog"][0]["resident_filling"]


def test_the_memory_of_a_shorter_queue_than_the_goal_speaks_of_is_not_judged() -> None:
    found = Results({}, {})
    found.backlog = [backlog(1_000_000, drain_seconds=5)]
    assert "peak < 500 MB not compared" in text_of(found)


def test_recovery_and_reclaiming_show_their_times_and_sizes() -> None:
    found = Results({}, {})
    found.recovery = [RecoverySample("rabbitmq", 1000, 5_000_000, None, 4.0, 4.5)]
    sizes = [(0.0, 0, 1_000_000), (1.0, 50, 9_000_000), (2.0, 100, 2_000_000)]
    found.reclaim = [ReclaimSample("penstock-data", 100, 50.0, 100, sizes)]
    text = text_of(found)
    assert "login 4.00 s, all there 4.50 s; 5 MB" in text
    assert "9 MB at most, 2 MB in the end" in text


def test_storage_cases_are_for_penstock_alone_unless_brokers_are_named() -> None:
    assert parse(["--cases", "backlog"]).storing_brokers == ["penstock"]
    assert parse(["--brokers", "rabbitmq"]).storing_brokers == ["rabbitmq"]
