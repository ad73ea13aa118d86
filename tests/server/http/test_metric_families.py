"""The text of a page with many series: what the library would write, with rests."""

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder

from penstock.server.http.api.pace import Pace
from penstock.server.http.metric_families import (
    FamilyCollector,
    object_families,
    written,
)
from penstock.server.http.object_figures import QueueFigures
from penstock.server.http.survey import Figures

QUEUES = 200
FAMILIES = frozenset({"queue_coarse_metrics", "penstock_queue_counts"})


class CountedRests(Pace):
    """Held by a test."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def rest_if_due(self) -> None:
        self.count += 1


def figures() -> Figures:
    return Figures(
        per_queue=[
            QueueFigures("/", f'q"{number}\n', number, 2, number + 2, 1, 9, 8, 7, 6, [])
            for number in range(QUEUES)
        ]
    )


@pytest.mark.parametrize("accepted", ["", "application/openmetrics-text; version=1.0.0"])
def test_the_text_is_that_of_the_library(accepted: str) -> None:
    encode, _ = choose_encoder(accepted)
    gauge = GaugeMetricFamily("g", "text", labels=["vhost", "queue"])
    counter = CounterMetricFamily("c", "text", value=4)
    for number in range(3):
        gauge.add_metric(["/", f"q{number}"], number)
    whole = CollectorRegistry()
    for family in (gauge, counter):
        whole.register(FamilyCollector(family))
    assert b"".join(written(iter([gauge, counter]), encode, Pace())) == encode(whole)


@pytest.mark.parametrize("accepted", ["", "application/openmetrics-text; version=1.0.0"])
def test_every_series_may_be_followed_by_a_rest(accepted: str) -> None:
    encode, _ = choose_encoder(accepted)
    pace = CountedRests()
    pieces = written(object_families(figures(), FAMILIES, False, pace), encode, pace)
    text = b"".join(pieces).decode()
    series = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(series) >= 3 * QUEUES
    assert pace.count >= len(series)
    assert 'rabbitmq_queue_messages_ready{queue="q\\"7\\n",vhost="/"} 7.0' in series
    assert sum("_total{" in line for line in series) >= 3 * QUEUES


@pytest.mark.parametrize("accepted", ["", "application/openmetrics-text; version=1.0.0"])
def test_series_are_written_as_the_library_writes_them(accepted: str) -> None:
    encode, _ = choose_encoder(accepted)
    found = Figures(
        per_queue=[
            QueueFigures("/\\", 'q"1"\n', 7, 2, 9, 1, 12_345_678, 8, 7, 6, []),
            QueueFigures("\udc80", "\u00fc", 10**17, 0, 0, 0, 0, 0, 0, 0, []),
        ]
    )
    text = b"".join(written(object_families(found, FAMILIES, False, Pace()), encode, Pace()))
    gauge = GaugeMetricFamily(
        "rabbitmq_queue_messages_ready", "Ready messages", labels=["vhost", "queue"]
    )
    gauge.add_metric(["/\\", 'q"1"\n'], 7)
    gauge.add_metric(["\\udc80", "\u00fc"], 10**17)
    registry = CollectorRegistry()
    registry.register(FamilyCollector(gauge))
    series = [line for line in encode(registry).splitlines() if b"{" in line]
    assert len(series) == 2
    assert set(series) <= set(text.splitlines())
