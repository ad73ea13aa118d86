"""What the Spark case concludes, from figures that need neither Spark nor a broker."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from bench import report
from bench.results import Results
from bench.run import parse
from bench.spark import (
    AUDIT_LEDGER,
    COMPARISONS,
    PARQUET_ALL,
    READ_USUAL,
    WRITE_SINK,
    WRITE_TUPLES,
    SparkSample,
    SparkWork,
    ratio,
    verdicts,
)
from bench.spark_reads import bodies


def sample(work: SparkWork, round_index: int, rate: float, broker: float = 0.0) -> SparkSample:
    rows = 1_000_000
    seconds = rows / rate
    cpu = (2.0, broker * rows / 1e6)
    return SparkSample(work, round_index, rows, seconds, seconds + 1, rate, *cpu)


def samples() -> list[SparkSample]:
    """A neighbour halves everything in the second round."""
    found = []
    for round_index, pace in ((1, 1.0), (2, 0.5), (3, 1.0)):
        found += [
            sample(READ_USUAL, round_index, 800_000 * pace, 0.09),
            sample(PARQUET_ALL, round_index, 1_000_000 * pace),
            sample(WRITE_SINK, round_index, 90_000 * pace, 3.0),
            sample(WRITE_TUPLES, round_index, 45_000 * pace, 3.0),
        ]
    return found


def test_ratios_are_taken_within_rounds() -> None:
    assert ratio(samples(), COMPARISONS[0]) == pytest.approx(0.8)
    assert ratio(samples()[:1], COMPARISONS[0]) is None


def test_verdicts_are_those_of_what_was_measured() -> None:
    read = {verdict.goal: verdict.met for verdict in verdicts(samples(), READ_USUAL)}
    assert read == {">= 0.7x no-op, Parquet, all": True, "broker <= 0.1 us": True}
    write = {verdict.goal: verdict.met for verdict in verdicts(samples(), WRITE_SINK)}
    assert write == {">= 3x write, tuples": False, ">= 60,000/s": True}
    slow = [sample(AUDIT_LEDGER, 1, 900_000)]
    assert [verdict.met for verdict in verdicts(slow, AUDIT_LEDGER)] == [False]
    assert verdicts(slow, WRITE_SINK) == []


def test_the_table_the_file_and_the_plots_tell_the_same(tmp_path: Path) -> None:
    found = Results({"cores": 2}, {"rounds": 3}, {"spark": "4.3.0"})
    found.spark = samples()
    out = io.StringIO()
    report.show(found, Console(file=out, width=200))
    assert ">= 0.7x no-op, Parquet, all: 0.80 met" in out.getvalue()
    assert ">= 3x write, tuples: 2.00 missed" in out.getvalue()
    path = report.save(found, tmp_path / "found.json")
    (read, *_) = json.loads(path.read_text())["spark"]
    assert (read["rows_of"], read["work"], read["columns"]) == ("penstock", "no-op", "usual")
    assert read["rate"] == pytest.approx(800_000)
    assert (read["microseconds"], read["broker_microseconds"]) == pytest.approx((2.0, 0.09))
    assert len(read["samples"]) == 3
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "no-op, penstock, usual" in path.with_suffix(".html").read_text()


def test_bodies_have_a_hundred_bytes_and_never_come_twice() -> None:
    found = [*bodies(0, 500), *bodies(500, 500)]
    assert {len(body) for body in found} == {100}
    assert len({body[30:] for body in found}) == 1000


def test_parts_of_the_case_can_be_chosen() -> None:
    assert parse(["--cases", "spark"]).spark_parts == ["read", "write", "audit"]
    assert parse(["--cases", "spark", "--spark-parts", "audit"]).spark_parts == ["audit"]
    with pytest.raises(SystemExit):
        parse(["--spark-parts", "reed"])
