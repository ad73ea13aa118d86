"""`penstock pipeline flow`: how many messages went where, from ledgers."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from penstock.cli.pipeline_session import (
    JsonOption,
    MasterOption,
    MemoryOption,
    PlotOption,
    print_json,
    progress,
    refusals,
    spark,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.jobs.charts import Chart
    from penstock.spark.jobs.flow import Flow, RouteFlow

# The period that --follow shows.
FOLLOWED_SECONDS: Final = 60
# The number of bars that can still be distinguished.
HOTTEST_DRAWN: Final = 8
# A design figure is drawn when it is at most this many times the highest rate.
MARK_RATIO: Final = 3
CLOCK: Final = "time of day (UTC)"


WordsOption = Annotated[
    int, typer.Option("--words", min=1, help="Number of words in a routing key's prefix.")
]
FollowOption = Annotated[
    bool,
    typer.Option(
        "--follow",
        help=f"Refresh the rates of the last {FOLLOWED_SECONDS} seconds until Ctrl-C; with --json, "
        "print one line per refresh.",
    ),
]


def command(
    ledgers: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Data directories of servers started with --ledger."),
    ],
    bucket: Annotated[
        float, typer.Option("--bucket", min=0.001, help="Averaging interval of rates, in seconds.")
    ] = 1.0,
    top: Annotated[
        int, typer.Option("--top", min=1, help="Show this many of the busiest in each table.")
    ] = 20,
    words: WordsOption = 2,
    follow: FollowOption = False,
    every: Annotated[
        float, typer.Option("--every", min=0.5, help="Seconds between refreshes with --follow.")
    ] = 2.0,
    plot: PlotOption = None,
    master: MasterOption = "local[*]",
    memory: MemoryOption = "1g",
    as_json: JsonOption = False,
) -> None:
    """Show rates by exchange, topic, queue and server, the busiest first, and how far consumers lag.

    ISR, the internal switching rate, counts a message once for each queue it was switched into;
    XSR, the external switching rate, counts deliveries to consumers. Both are shown beside the
    design figures for one broker: 160,000/s and 120,000/s.
    """
    with refusals():
        from penstock.spark.jobs.charts import check_plot
        from penstock.spark.jobs.flow import flow
        from penstock.spark.jobs.ledger_catalog import find_places
        from penstock.spark.jobs.ledger_reading import open_ledgers

        if plot is not None:
            check_plot(plot)
        find_places(ledgers)
        bucket_ms = max(1, round(bucket * 1000))
        with progress(as_json or follow) as tell, spark(master, memory, "flow", tell) as session:
            if follow:
                # Without a terminal nothing can be overwritten, so each refresh is a line.
                as_lines = as_json or not Console().is_terminal
                found = _follow(session, ledgers, bucket_ms, every, top, words, as_lines)
            else:
                tell("counting")
                found = flow(open_ledgers(session, ledgers), bucket_ms)
        if plot is not None:
            draw_flow(plot, found, top)
    if follow:
        return
    if as_json:
        print_json(described(found, words))
    else:
        Console().print(shown(found, top, words))


def _follow(
    session: "SparkSession",
    ledgers: list[Path],
    bucket_ms: int,
    every: float,
    top: int,
    words: int,
    as_lines: bool,
) -> "Flow":
    from penstock.spark.jobs.flow import flow
    from penstock.spark.jobs.ledger_reading import open_ledgers

    found: Flow | None = None

    def look_again(show: Callable[["Flow"], None]) -> None:
        nonlocal found
        while True:
            since = time.time_ns() // 1_000_000 - FOLLOWED_SECONDS * 1000
            found = flow(open_ledgers(session, ledgers), bucket_ms, since)
            show(found)
            time.sleep(every)

    try:
        if as_lines:
            look_again(lambda seen: print_json(described(seen, words)))
        else:
            with Live(console=Console(), auto_refresh=False) as live:
                look_again(lambda seen: live.update(shown(seen, top, words), refresh=True))
    except KeyboardInterrupt:
        if found is None:
            raise
    assert found is not None, "--follow runs until it is interrupted"
    return found


def shown(found: "Flow", top: int, words: int) -> Group:
    from penstock.spark.jobs.flow import SEED_ISR, SEED_XSR

    rates = Table(title="penstock flow")
    for name in ("", "average /s", "peak /s", "design figure /s"):
        rates.add_column(name, justify="left" if not name else "right")
    rates.add_row(
        "into queues (ISR)", f"{found.isr:,.0f}", f"{found.peak_isr:,.0f}", f"{SEED_ISR:,}"
    )
    rates.add_row(
        "to consumers (XSR)", f"{found.xsr:,.0f}", f"{found.peak_xsr:,.0f}", f"{SEED_XSR:,}"
    )
    for server, (entered, given) in found.servers().items():
        rates.add_row(server, f"{entered:,.0f} in", f"{given:,.0f} out", "")
    queues = Table(title=f"queues, {found.seconds:,.0f} s")
    for name in ("queue", "in /s", "out /s", "in", "out", "dropped", "backlog"):
        queues.add_column(name, justify="left" if name == "queue" else "right")
    for queue in found.queues[:top]:
        queues.add_row(
            queue.name,
            f"{found.rate(queue.entered):,.0f}",
            f"{found.rate(queue.given):,.0f}",
            f"{queue.entered:,}",
            f"{queue.given:,}",
            f"{queue.dropped:,}",
            f"{queue.lag:,}",
        )
    if not found.routes:
        return Group(rates, queues)
    return Group(
        rates,
        queues,
        _routes("exchanges", "exchange", found.exchanges()[:top], found),
        _routes("topics by prefix", "exchange and prefix", found.topics(words)[:top], found),
        _routes("busiest routing keys", "exchange and routing key", found.hottest()[:top], found),
    )


def _routes(title: str, name: str, routes: list["RouteFlow"], found: "Flow") -> Table:
    table = Table(title=title)
    table.add_column(name)
    for column in ("published /s", "peak /s", "published"):
        table.add_column(column, justify="right")
    for route in routes:
        rate, peak = found.rate(route.count), found.peak(route)
        table.add_row(label(route), f"{rate:,.0f}", f"{peak:,.0f}", f"{route.count:,}")
    return table


def label(route: "RouteFlow") -> str:
    vhost = "" if route.vhost == "/" else f"{route.vhost}: "
    return f"{vhost}{route.exchange or '(default)'} {route.key}".rstrip()


def described(found: "Flow", words: int) -> dict[str, object]:
    from penstock.spark.jobs.flow import SEED_ISR, SEED_XSR

    def routes(chosen: list["RouteFlow"]) -> list[dict[str, object]]:
        return [
            {
                "vhost": route.vhost,
                "exchange": route.exchange,
                "key": route.key,
                "published": route.count,
                "rate": round(found.rate(route.count), 1),
                "peak": round(found.peak(route), 1),
            }
            for route in chosen
        ]

    return {
        "isr": round(found.isr),
        "xsr": round(found.xsr),
        "isr_peak": round(found.peak_isr),
        "xsr_peak": round(found.peak_xsr),
        "seed": {"isr": SEED_ISR, "xsr": SEED_XSR},
        "seconds": found.seconds,
        "bucket_ms": found.bucket_ms,
        "series": {"in": found.series(0), "out": found.series(1), "lag": found.lag_series()},
        "servers": {name: {"in": i, "out": o} for name, (i, o) in found.servers().items()},
        "exchanges": routes(found.exchanges()),
        "topics": routes(found.topics(words)),
        "hot_topics": routes(found.hottest()),
        "queues": [
            {
                "server": queue.server,
                "vhost": queue.vhost,
                "queue": queue.name,
                "in": queue.entered,
                "out": queue.given,
                "acknowledged": queue.acknowledged,
                "dropped": queue.dropped,
                "lag": queue.lag,
            }
            for queue in found.queues
        ],
    }


def flow_charts(found: "Flow") -> list["Chart"]:
    from penstock.spark.jobs.charts import Chart
    from penstock.spark.jobs.flow import SEED_ISR, SEED_XSR

    times = [
        datetime.fromtimestamp((found.first_bucket + index) * found.bucket_ms / 1000, UTC)
        for index in range(found.bucket_count)
    ]
    figures = {"design figure, into queues": SEED_ISR, "design figure, to consumers": SEED_XSR}
    peak = max(found.peak_isr, found.peak_xsr)
    charts = [
        Chart(
            "Rates",
            "messages per second",
            CLOCK,
            times,
            {"into queues": found.series(0), "to consumers": found.series(1)},
            # A line far above all others would flatten them.
            marks={name: rate for name, rate in figures.items() if rate <= MARK_RATIO * peak},
        ),
        Chart("Backlog", "messages", CLOCK, times, {"waiting in queues": found.lag_series()}),
    ]
    if found.routes:
        hottest = {label(route): found.peak(route) for route in found.hottest()[:HOTTEST_DRAWN]}
        seconds = found.bucket_ms / 1000
        busiest = f"messages per second, in the busiest {seconds:g} s of each"
        charts.append(Chart("Busiest routing keys", busiest, bars=hottest))
    return charts


def draw_flow(path: Path, found: "Flow", top: int) -> None:
    from penstock.spark.jobs.charts import draw

    head = ["queue", "in", "out", "dropped", "backlog"]
    rows = [
        [queue.name, *(f"{n:,}" for n in (queue.entered, queue.given, queue.dropped, queue.lag))]
        for queue in found.queues[:top]
    ]
    draw(path, "penstock flow", flow_charts(found), [head, *rows])
