"""`penstock pipeline capacity`: the throughput of a cluster, and its bottleneck."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
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
    from collections.abc import Sequence

    from penstock.spark.jobs.capacity import Capacity, Shape, Site
    from penstock.spark.jobs.charts import Chart

# Receivers for which a cluster is planned: a team, a company, a city, a country, everybody.
RECEIVERS: Final = (100, 10_000, 1_000_000, 100_000_000, 5_000_000_000)


BrokersOption = Annotated[
    int, typer.Option("--brokers", "-B", min=1, help="Number of brokers that each relay feeds.")
]
QueuesOption = Annotated[
    int, typer.Option("--queues", "-Q", min=1, help="Queues per broker that serves clients.")
]
LevelsOption = Annotated[
    int, typer.Option("--levels", min=0, help="Levels of relays; 0 is a single broker.")
]
SizeOption = Annotated[int, typer.Option("--size", min=1, help="Size of a message in bytes.")]
RateOption = Annotated[
    float, typer.Option("--rate", min=0.001, help="Publishes per second of the publisher.")
]
GigabitsOption = Annotated[
    float,
    typer.Option(
        "--gigabits", min=0.001, help="Network bandwidth of a broker in Gbit/s, each way."
    ),
]
EfficiencyOption = Annotated[
    float,
    typer.Option(
        "--efficiency", min=0.01, max=1.0, help="Usable part of the client network bandwidth."
    ),
]
CoresOption = Annotated[
    float, typer.Option("--cores", min=0.1, help="CPU cores that a broker uses.")
]
# As `RECEIVE_US` and `SEND_US` in the job, repeated so that --help needs no Spark.
ReceiveOption = Annotated[
    float,
    typer.Option("--receive-us", min=0, help="CPU time to receive a message, in microseconds."),
]
SendOption = Annotated[
    float, typer.Option("--send-us", min=0, help="CPU time to send a message, in microseconds.")
]


def command(
    brokers: BrokersOption = 12,
    queues: QueuesOption = 12,
    levels: LevelsOption = 1,
    size: SizeOption = 1000,
    rate: RateOption = 10_000.0,
    gigabits: GigabitsOption = 1.0,
    efficiency: EfficiencyOption = 1.0,
    cores: CoresOption = 1.0,
    receive_us: ReceiveOption = 0.25,
    send_us: SendOption = 0.20,
    plot: PlotOption = None,
    master: MasterOption = "local[*]",
    memory: MemoryOption = "512m",
    as_json: JsonOption = False,
) -> None:
    """Compute the throughput of a cluster of B brokers with Q queues each, and its bottleneck.

    A publisher publishes at --rate to a root broker that feeds B brokers, each of which serves Q
    clients. With --levels 2 or more every broker feeds B more. The CPU costs per message are those
    measured on Penstock; --receive-us and --send-us override them. A second table shows the
    smallest cluster for up to five billion receivers, and Spark computes a grid of sizes.
    """
    with refusals():
        from penstock.spark.jobs import capacity as job
        from penstock.spark.jobs.charts import check_plot

        if plot is not None:
            check_plot(plot)
        site = job.Site(
            message_bytes=size,
            offered=rate,
            internal_bits=gigabits * job.GIGABIT,
            external_bits=gigabits * job.GIGABIT * efficiency,
            receive_us=receive_us,
            send_us=send_us,
            cores=cores,
        )
        # Without relays there is one broker, whatever --brokers says.
        shape = job.Shape(brokers if levels else 1, queues, levels)
        asked = job.evaluate(site, shape)
        grid = job.Grid().including(shape, size)
        with progress(as_json) as tell, spark(master, memory, "capacity", tell) as session:
            tell("computing the grid")
            rows = [row.asDict() for row in job.capacity_grid(session, site, grid).collect()]
        if plot is not None:
            draw_capacity(plot, rows, shape, asked, size)
    told = described(site, asked)
    if as_json:
        print_json({**told, "scale": _scale(site), "grid": rows})
    else:
        show(told, f"{_brokers(shape.brokers)} x {queues:,} queues", _scale(site), rows)


def described(site: "Site", asked: "Capacity") -> dict[str, Any]:
    from penstock.spark.jobs.capacity import streams_max

    return {
        **asdict(asked),
        "queues_max": streams_max(site, site.external_bits),
        "brokers_max": streams_max(site, site.internal_bits),
    }


def _scale(site: "Site") -> list[dict[str, Any]]:
    from penstock.spark.jobs.capacity import best_shape

    found = []
    for receivers in RECEIVERS:
        shape, capacity = best_shape(site, receivers)
        found.append(
            {
                "receivers": receivers,
                "brokers": shape.brokers,
                "queues": shape.queues,
                "levels": shape.levels,
                "nodes": capacity.nodes,
                "publishes": capacity.publishes,
                "xsr": capacity.publishes * receivers,
                "binding": capacity.binding,
            }
        )
    return found


def show(
    told: dict[str, Any], title: str, scale: list[dict[str, Any]], rows: list[dict[str, Any]]
) -> None:
    console = Console()
    table = Table(title=f"penstock capacity, {title}")
    table.add_column("")
    table.add_column("", justify="right")
    table.add_row("sustainable publish rate", f"{told['publishes']:,.0f} /s")
    table.add_row("messages into queues (ISR)", f"{told['isr']:,.0f} /s")
    table.add_row("messages to clients (XSR)", f"{told['xsr']:,.0f} /s")
    table.add_row("servers", f"{told['nodes']:,}")
    table.add_row("limited by", told["binding"])
    table.add_row("queues at the full rate, at most", f"{told['queues_max']:,}")
    table.add_row("brokers at the full rate, at most", f"{told['brokers_max']:,}")
    console.print(table)
    wide = Table(title="the smallest cluster that gives each receiver the highest rate")
    names = (
        "receivers",
        "servers",
        "B",
        "Q",
        "levels",
        "publishes /s",
        "to clients /s",
        "limited by",
    )
    for name in names:
        wide.add_column(name, justify="left" if name == "limited by" else "right")
    for row in scale:
        wide.add_row(
            short(row["receivers"]),
            short(row["nodes"]),
            f"{row['brokers']:,}",
            f"{row['queues']:,}",
            str(row["levels"]),
            f"{row['publishes']:,.0f}",
            short(row["xsr"]),
            row["binding"],
        )
    console.print(wide)
    bound: dict[str, int] = {}
    for row in rows:
        bound[row["binding"]] = bound.get(row["binding"], 0) + 1
    spread = ", ".join(f"{count} by {name}" for name, count in sorted(bound.items()))
    console.print(f"Bottlenecks of the {len(rows)} clusters in the grid: {spread}.")


def short(number: float) -> str:
    """Shortened so that a line of large numbers fits into a terminal."""
    for unit, size in (("G", 1e9), ("M", 1e6)):
        if number >= 10 * size:
            return f"{number / size:,.0f} {unit}"
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number:,.0f}"


def capacity_charts(
    rows: list[dict[str, Any]], shape: "Shape", asked: "Capacity", size: int
) -> list["Chart"]:
    """Charts of the requested cluster, and of others with the same message size and levels."""
    from penstock.spark.jobs.charts import Chart, Spot

    mine = [r for r in rows if (r["message_bytes"], r["levels"]) == (size, shape.levels)]
    queues = sorted({row["queues"] for row in mine})
    every = sorted({row["brokers"] for row in mine})
    chosen = shape.brokers
    bound = f"limited by: {asked.binding}"
    charts = []
    for name, title, rate in (
        ("xsr", "Messages delivered to all clients", asked.xsr),
        ("publishes", "Publish rate that the cluster sustains", asked.publishes),
    ):
        lines: dict[str, Sequence[float]] = {
            _brokers(brokers): [
                next(r[name] for r in mine if (r["brokers"], r["queues"]) == (brokers, count))
                for count in queues
            ]
            for brokers in every
        }
        text = f"{_brokers(chosen)} x {shape.queues:,} queues: {rate:,.0f} /s\n{bound}"
        charts.append(
            Chart(
                title,
                "messages per second",
                "queues of each broker",
                queues,
                lines,
                is_logarithmic=True,
                spot=Spot(shape.queues, rate, text),
                emphasized=_brokers(chosen),
            )
        )
    used = {name: 100 * share for name, share in asked.used.items()}
    title = f"How much of each limit this cluster uses; {bound}"
    charts.append(Chart(title, "per cent", bars=used, emphasized=asked.binding, unit=" %"))
    return charts


def _brokers(count: int) -> str:
    return "1 broker" if count == 1 else f"{count:,} brokers"


# What the columns of the grid are called in the table of an HTML page.
_HEADS: Final = {
    "message_bytes": "bytes of a message",
    "nodes": "servers",
    "publishes": "publishes /s",
    "isr": "into queues /s",
    "xsr": "to clients /s",
    "binding": "limited by",
}


def draw_capacity(
    path: Path, rows: list[dict[str, Any]], shape: "Shape", asked: "Capacity", size: int
) -> None:
    from penstock.spark.jobs.charts import draw, text_cell

    names = list(rows[0])
    table = [
        [_HEADS.get(name, name) for name in names],
        *([text_cell(row[name]) for name in names] for row in rows),
    ]
    levels = "" if shape.levels == 1 else f", {shape.levels} levels of relays"
    title = f"penstock capacity, messages of {size:,} bytes{levels}"
    draw(path, title, capacity_charts(rows, shape, asked, size), table)
