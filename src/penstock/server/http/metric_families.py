"""The figures of one survey in Prometheus' words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Sample,
)
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.utils import floatToGoString

import penstock
from penstock.broker.definitions.exporting import FORM
from penstock.broker.queues.ages import BUCKETS_MS
from penstock.builds import build_mode
from penstock.dialects.confirm_times import CONFIRM_BUCKETS_MS
from penstock.server.http.api.pieces import PIECE_BYTES, cut
from penstock.server.http.cluster_families import cluster_families
from penstock.server.http.metric_table import (
    CHANNEL_FAMILIES,
    CONNECTION_FAMILIES,
    COUNTER,
    QUEUE_FAMILIES,
    TIME_FAMILY,
    TOTAL_FAMILIES,
    TOTALS,
    rows_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from prometheus_client.core import Metric

    from penstock.server.http.api.pace import Pace
    from penstock.server.http.metric_table import MetricRow, Tables
    from penstock.server.http.object_figures import QueueFigures
    from penstock.server.http.survey import Figures

# The library does not say its types.
_number_text: Final[Callable[[float], str]] = floatToGoString

_PLAIN: Final = "rabbitmq_"
_DETAILED: Final = "rabbitmq_detailed_"
_OWN: Final = "penstock_"
_OWN_DETAILED: Final = "penstock_detailed_"
_CONFIRM_TIME: Final = "penstock_publish_confirm_seconds"
_QUEUE_TIME: Final = "penstock_queue_time_seconds"
_QUEUE_TIME_TEXT: Final = "Time that messages were in their queue before they were delivered"


class FamilyCollector(Collector):
    """Given to Prometheus' library for one family."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterator[Metric]:
        yield self._family


class SeriesSamples(list[Sample]):
    """The series of one family, a line for each object. To Prometheus' library, which makes the lines
    above them, it is an empty list: the library takes five times as long for a line, and ten thousand
    samples at once would be work for the collector of garbage, which stops all threads. Held by its
    family.
    """

    def __init__(
        self, name: str, labels: Sequence[str], values: Iterable[float], pace: Pace
    ) -> None:
        super().__init__()
        self._name = name
        self._labels = labels
        self._values = values
        self._pace = pace

    def lines(self) -> bytes:
        lines: list[str] = []
        for labels, value in zip(self._labels, self._values, strict=True):
            lines.append(f"{self._name}{labels} {_number_text(value)}\n")
            self._pace.rest_if_due()
        return "".join(lines).encode()


class PacedSamples(list[Sample]):
    """Samples that are there already. Held by their family."""

    def __init__(self, samples: list[Sample], pace: Pace) -> None:
        super().__init__(samples)
        self._pace = pace

    def __iter__(self) -> Iterator[Sample]:
        for sample in super().__iter__():
            self._pace.rest_if_due()
            yield sample


def written(
    families: Iterable[Metric], encode: Callable[[CollectorRegistry], bytes], pace: Pace
) -> list[bytes]:
    """The text of a page, made family by family: joining all lines at once could not rest. So it is
    not joined either.
    """
    end = encode(CollectorRegistry())
    pieces: list[bytes] = []
    for family in families:
        registry = CollectorRegistry()
        registry.register(FamilyCollector(family))
        text = encode(registry).removesuffix(end)
        if isinstance(family.samples, SeriesSamples):
            text += family.samples.lines()
        # Most families are one line; those that are not come last.
        if pieces and len(pieces[-1]) + len(text) <= PIECE_BYTES:
            pieces[-1] += text
        else:
            pieces += cut(text)
        pace.rest_if_due()
    return [*pieces, end] if end else pieces


def identity_families(figures: Figures) -> Iterator[Metric]:
    """What RabbitMQ's dashboards join with everything else."""
    yield InfoMetricFamily(
        "rabbitmq_identity",
        "Name of the node; RabbitMQ's dashboards select by it",
        {
            "rabbitmq_node": _label(figures.node_name),
            "rabbitmq_cluster": _label(figures.cluster_name),
        },
    )
    yield InfoMetricFamily(
        "rabbitmq_build",
        "Version of RabbitMQ whose API this is, and version of Penstock",
        {
            "rabbitmq_version": FORM,
            "product_name": "Penstock",
            "product_version": penstock.__version__,
            "build": build_mode(),
        },
    )


def total_families(figures: Figures, families: frozenset[str]) -> Iterator[Metric]:
    """Without those of which the page has a series for each object, in these families."""
    one_by_one = {
        row.name
        for tables in (QUEUE_FAMILIES, CONNECTION_FAMILIES, CHANNEL_FAMILIES)
        for row in rows_of(tables, families)
    }
    for row in TOTALS:
        if row.name not in one_by_one:
            yield _total(row, row.name, figures)
    yield _histogram(
        _CONFIRM_TIME,
        "Time from reading a publish to writing its confirm",
        CONFIRM_BUCKETS_MS,
        figures.confirm_times,
    )
    yield _histogram(_QUEUE_TIME, _QUEUE_TIME_TEXT, BUCKETS_MS, figures.time_in_queue)
    yield from _journal_families(figures)
    yield from cluster_families(figures)
    yield from _stream_families(figures)


def chosen_totals(figures: Figures, families: frozenset[str]) -> Iterator[Metric]:
    """The totals that RabbitMQ's page of details has."""
    for family, beginnings in TOTAL_FAMILIES.items():
        if family in families:
            for row in TOTALS:
                if row.name.startswith(beginnings):
                    yield _total(row, row.name.replace(_PLAIN, _DETAILED, 1), figures)


def object_families(
    figures: Figures, families: frozenset[str], is_detailed: bool, pace: Pace
) -> Iterator[Metric]:
    """A series for each object; `families` are those that were asked for. A family that is yielded
    is to be written before the next one is asked for.
    """
    # In the order of the labels' names, as the library writes them.
    queues = _labels(
        (
            f'{{queue="{_quoted(queue.name)}",vhost="{_quoted(queue.vhost)}"}}'
            for queue in figures.per_queue
        ),
        pace,
    )
    connections = _labels(
        (f'{{connection="{_quoted(found.name)}"}}' for found in figures.per_connection), pace
    )
    channels = _labels(
        (f'{{channel="{_quoted(found.name)}"}}' for found in figures.per_channel), pace
    )
    kinds: tuple[tuple[Tables, list[str], Sequence[object]], ...] = (
        (QUEUE_FAMILIES, queues, figures.per_queue),
        (CONNECTION_FAMILIES, connections, figures.per_connection),
        (CHANNEL_FAMILIES, channels, figures.per_channel),
    )
    for tables, labels, objects in kinds:
        for row in rows_of(tables, families):
            yield _series(row, _name(row.name, is_detailed), labels, objects, pace)
    if TIME_FAMILY in families:
        yield _queue_times(figures.per_queue, _name(_QUEUE_TIME, is_detailed), pace)
    if "vhost_status" in families:
        status = GaugeMetricFamily(
            "rabbitmq_cluster_vhost_status", "1 while the virtual host runs", labels=["vhost"]
        )
        for vhost in figures.per_vhost:
            status.add_metric([_label(vhost)], 1)
        yield status
    if "exchange_names" in families:
        names = GaugeMetricFamily(
            "rabbitmq_cluster_exchange_name",
            "Exchanges, with the value 1",
            labels=["vhost", "exchange", "type"],
        )
        for vhost, name, kind in figures.per_exchange:
            names.add_metric([_label(vhost), _label(name), kind], 1)
        yield names
    for known in (queues, connections, channels):
        pace.free(known)


def _labels(texts: Iterable[str], pace: Pace) -> list[str]:
    """By which the series of a family are told apart."""
    labels: list[str] = []
    for text in texts:
        labels.append(text)
        pace.rest_if_due()
    return labels


def _quoted(name: str) -> str:
    return _label(name).replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _name(name: str, is_detailed: bool) -> str:
    if not is_detailed:
        return name
    if name.startswith(_PLAIN):
        return name.replace(_PLAIN, _DETAILED, 1)
    return name.replace(_OWN, _OWN_DETAILED, 1)


def _total(row: MetricRow, name: str, figures: Figures) -> Metric:
    value = getattr(figures, row.attribute)
    if row.kind == COUNTER:
        return CounterMetricFamily(name, row.text, value=value)
    return GaugeMetricFamily(name, row.text, value=value)


def _series(
    row: MetricRow,
    name: str,
    labels: list[str],
    objects: Sequence[object],
    pace: Pace,
) -> Metric:
    family: CounterMetricFamily | GaugeMetricFamily
    if row.kind == COUNTER:
        family = CounterMetricFamily(name, row.text)
    else:
        family = GaugeMetricFamily(name, row.text)
    # As the library calls the samples of a counter.
    sample = f"{family.name}_total" if row.kind == COUNTER else family.name
    values = (getattr(found, row.attribute) for found in objects)
    family.samples = SeriesSamples(sample, labels, values, pace)
    return family


def _histogram(
    name: str, text: str, bounds_ms: tuple[int, ...], numbers: list[int]
) -> HistogramMetricFamily:
    buckets, sum_seconds = _cumulative(bounds_ms, numbers)
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=sum_seconds)


def _queue_times(queues: list[QueueFigures], name: str, pace: Pace) -> HistogramMetricFamily:
    family = HistogramMetricFamily(name, _QUEUE_TIME_TEXT, labels=["vhost", "queue"])
    for queue in queues:
        if queue.times:
            buckets, sum_seconds = _cumulative(BUCKETS_MS, queue.times)
            family.add_metric([_label(queue.vhost), _label(queue.name)], buckets, sum_seconds)
        pace.rest_if_due()
    family.samples = PacedSamples(family.samples, pace)
    return family


def _cumulative(
    bounds_ms: tuple[int, ...], numbers: list[int]
) -> tuple[list[tuple[str, float]], float]:
    """From counts per bucket, followed by the sum in milliseconds."""
    *counts, sum_ms = numbers
    total = 0
    buckets: list[tuple[str, float]] = []
    for index, count in enumerate(counts):
        total += count
        bound = str(bounds_ms[index] / 1000) if index < len(bounds_ms) else "+Inf"
        buckets.append((bound, total))
    return buckets, sum_ms / 1000


def _journal_families(figures: Figures) -> Iterator[Metric]:
    if figures.journal is None:
        return
    position, safe, size, segments = figures.journal
    yield CounterMetricFamily(
        "penstock_journal_written_bytes", "Bytes written to the journal", position
    )
    yield CounterMetricFamily(
        "penstock_journal_safe_bytes", "Bytes of the journal that are durable", safe
    )
    yield GaugeMetricFamily("penstock_journal_bytes", "Size of the journal files on disk", size)
    yield GaugeMetricFamily("penstock_journal_segments", "Number of journal segments", segments)


def _stream_families(figures: Figures) -> Iterator[Metric]:
    labels = ["vhost", "stream"]
    first = GaugeMetricFamily(
        "penstock_stream_first_offset", "First offset in the stream", labels=labels
    )
    end = GaugeMetricFamily(
        "penstock_stream_safe_end_offset",
        "All messages before this offset are durable",
        labels=labels,
    )
    size = GaugeMetricFamily("penstock_stream_bytes", "Size of the stream on disk", labels=labels)
    by_cursor = [*labels, "cursor"]
    offset = GaugeMetricFamily(
        "penstock_stream_cursor_offset", "Next offset of the cursor's reader", labels=by_cursor
    )
    lag = GaugeMetricFamily(
        "penstock_stream_cursor_lag",
        "Messages from the cursor's offset to the end of the stream",
        labels=by_cursor,
    )
    for stream in figures.streams:
        place = [_label(stream.vhost), _label(stream.name)]
        first.add_metric(place, stream.first_offset)
        end.add_metric(place, stream.safe_end_offset)
        size.add_metric(place, stream.size)
        for cursor, at, behind in stream.cursors:
            offset.add_metric([*place, _label(cursor)], at)
            lag.add_metric([*place, _label(cursor)], behind)
    yield from (first, end, size, offset, lag)
    yield GaugeMetricFamily(
        "penstock_streams_left_out",
        "Streams omitted from this page; see the metrics per object",
        value=figures.streams_left_out,
    )


def _label(name: str) -> str:
    """Names may hold bytes that are not UTF-8; one of them must not break the page."""
    return name.encode(errors="backslashreplace").decode()
