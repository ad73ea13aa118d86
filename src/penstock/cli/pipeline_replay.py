"""`penstock pipeline replay`: from an archive back to an exchange."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from penstock.cli.pipeline_session import (
    JsonOption,
    MasterOption,
    MemoryOption,
    print_json,
    progress,
    refusals,
    spark,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


ExchangeOption = Annotated[
    str | None,
    typer.Option(
        "--exchange",
        help="Publish to this exchange; amq.default is the default exchange. "
        "Default: the one each message was published to.",
    ),
]
RoutingKeyOption = Annotated[
    str | None, typer.Option("--routing-key", help="Routing key. Default: the message's own.")
]
WhereOption = Annotated[
    str | None,
    typer.Option(
        "--where", help="An SQL condition, such as \"routing_key like 'eu.%' and offset > 10\"."
    ),
]


def command(
    archive: Annotated[
        str,
        typer.Argument(metavar="ARCHIVE", help="Written by `penstock pipeline archive`."),
    ],
    uri: Annotated[
        str, typer.Option("--uri", help="AMQP address of the broker to publish to.")
    ] = "amqp://guest:guest@localhost:5672",
    exchange: ExchangeOption = None,
    routing_key: RoutingKeyOption = None,
    stream: Annotated[
        str | None, typer.Option("--stream", help="Only messages of this stream.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", help="Only messages from this time on, e.g. 2026-11-16T12:00:00Z."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="Only messages before this time.")
    ] = None,
    where: WhereOption = None,
    rate: Annotated[
        float, typer.Option("--rate", min=0, help="Messages per second; 0: unlimited.")
    ] = 0.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count the messages; publish none.")
    ] = False,
    master: MasterOption = "local[*]",
    memory: MemoryOption = "1g",
    as_json: JsonOption = False,
) -> None:
    """Publish archived messages again, ordered by timestamp, with their properties.

    Ends when the broker has confirmed every message. If it is killed earlier, only some of the
    messages have been published.
    """
    with refusals():
        from penstock.spark.address import FIRST_CONTACT_SECONDS
        from penstock.spark.first_contact import check_amqp
        from penstock.spark.jobs.archive import read_archive
        from penstock.spark.jobs.replay import replay

        begin, end = moment("--since", since), moment("--until", until)
        if not dry_run:
            # Checked before Spark starts, which takes longer.
            check_amqp(uri, FIRST_CONTACT_SECONDS)
        with progress(as_json) as tell, spark(master, memory, "replay", tell) as session:
            tell("reading the archive")
            rows = chosen_rows(read_archive(session, archive), stream, begin, end, where)
            if dry_run:
                count = rows.count()
            else:
                tell("publishing")
                count = replay(rows, uri, exchange, routing_key, rate)
    if as_json:
        print_json({"messages": count, "published": not dry_run})
    else:
        what = "would be published" if dry_run else "published and confirmed"
        Console().print(f"{count:,} messages {what}")


def moment(option: str, text: str | None) -> "datetime | None":
    """A time in UTC. Raises `OptionError`."""
    from penstock.spark.offset_choice import read_time

    if text is None:
        return None
    chosen = read_time(option, text).timestamp_ms
    assert chosen is not None, "a time was read"
    return datetime.fromtimestamp(chosen / 1000, UTC)


def chosen_rows(
    rows: "DataFrame",
    stream: str | None,
    since: datetime | None,
    until: datetime | None,
    where: str | None,
) -> "DataFrame":
    """Times are in UTC, like the days by which the archive is partitioned."""
    from pyspark.sql import functions as f

    if stream is not None:
        rows = rows.where(f.col("stream") == stream)
    if since is not None:
        rows = rows.where(f.col("timestamp") >= f.lit(since))
        rows = rows.where(f.col("date") >= f"{since:%Y-%m-%d}")
    if until is not None:
        rows = rows.where(f.col("timestamp") < f.lit(until))
        rows = rows.where(f.col("date") <= f"{until:%Y-%m-%d}")
    return rows if where is None else rows.where(where)
