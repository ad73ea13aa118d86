"""The table and the JSON file, from figures that need no broker."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from bench import report
from bench.cases import Case
from bench.footprint import IdleSample
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
    found.latency = [Latency("penstock", "half", LatencySample(1000, 999, 3000, {"p50": 80.0}))]
    found.idle = {"penstock": IdleSample(10_000, 3.0, 25_000.0)}
    found.startup = {"penstock": [0.3, 0.2, 0.9]}
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
    assert found.ratios(found.throughput[1]) == pytest.approx((10.0, 1 / 15))
    assert found.ratios(found.throughput[0]) is None


def test_the_table_says_which_goals_are_met_and_which_are_missed() -> None:
    text = text_of(results())
    assert "rate >= 8x met" in text
    assert "CPU <= 1/12 met" in text
    assert "CPU <= 2.5 us met" in text
    assert "stretch: CPU <= 1.8 us missed" in text
    assert "<= 1.3x missed" in text
    assert "< 20 kB missed" in text
    assert "< 0.5 s met" in text


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
    assert document["startup"]["penstock"] == [0.3, 0.2, 0.9]


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
