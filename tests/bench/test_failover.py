"""The probe of the case `failover` against fake brokers, and its verdicts."""

import io
import time

import pytest
from rich.console import Console

from bench import report
from bench.failover import Failover, Probe, publish_one
from bench.results import Results
from bench.run import parse
from bench.running import free_port
from tests.bench.fake_broker import FakeBroker


def test_a_probe_finds_the_one_address_that_confirms() -> None:
    with FakeBroker() as broker:
        probe = Probe([free_port(), broker.port, free_port()])
        before = time.perf_counter()
        probe.start()
        assert before <= probe.wait() <= time.perf_counter()
        assert broker.published >= probe.confirms >= 1


def test_one_message_is_published_and_confirmed() -> None:
    with FakeBroker() as broker:
        publish_one(broker.port)
        assert broker.published == 1


@pytest.mark.parametrize(
    ("seconds", "lost", "expected"),
    [
        ([3.0, 3.5, 5.0], 0, [True, True, True]),
        ([3.0, 3.6, 5.1], 0, [False, False, True]),
        ([3.0], 1, [True, True, False]),
        ([], 0, [None, None, True]),
    ],
)
def test_the_median_the_longest_and_what_was_lost_are_judged(
    seconds: list[float], lost: int, expected: list[bool | None]
) -> None:
    verdicts = Failover(0, seconds, seconds, lost).verdicts()
    assert [verdict.met for verdict in verdicts] == expected


def test_failovers_are_shown_and_kept() -> None:
    results = Results({"cores": 2}, {"seconds": 2.0})
    results.failover = [Failover(1_000_000, [2.5, 3.25, 4.5], [1.0, 2.0, 3.0])]
    out = io.StringIO()
    report.show(results, Console(file=out, width=200))
    assert "1,000,000" in out.getvalue()
    assert "3.25" in out.getvalue()
    assert results.as_json()["failover"] == [
        {
            "queued": 1_000_000,
            "seconds": [2.5, 3.25, 4.5],
            "joining_seconds": [1.0, 2.0, 3.0],
            "lost": 0,
            "p50": 3.25,
            "max": 4.5,
            "goals": [
                {"goal": "p50 <= 3.5 s", "measured": 3.25, "met": True},
                {"goal": "max <= 5 s", "measured": 4.5, "met": True},
                {"goal": "nothing lost", "measured": 0, "met": True},
            ],
        }
    ]


def test_clusters_are_measured_in_five_rounds_and_thirty_kills_unless_told() -> None:
    options = parse(["--cases", "replicated,failover"])
    assert (options.replicated_rounds, options.kills, options.queued) == (5, 30, [0, 1_000_000])
    options = parse(["--cases", "failover", "--rounds", "2", "--kills", "3", "--queued", "0"])
    assert (options.replicated_rounds, options.kills, options.queued) == (2, 3, [0])
