"""`penstock pipeline archive`: streams to Parquet, each message once."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from penstock.cli.pipeline_session import (
    JsonOption,
    MasterOption,
    MemoryOption,
    Tell,
    errors,
    print_json,
    progress,
    refusals,
    spark,
)

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

# The interval between two checks of a running query.
LOOK_SECONDS: Final = 1


ArchiveArgument = Annotated[
    str,
    typer.Argument(metavar="ARCHIVE", help="Directory of the archive; may be hdfs:// or s3a://."),
]
StreamOption = Annotated[str, typer.Option("--stream", help="Names of streams, comma-separated.")]
PatternOption = Annotated[
    str, typer.Option("--pattern", help="Regular expression of stream names, instead of --stream.")
]
UriOption = Annotated[str, typer.Option("--uri", help="HTTP address of the broker, with /VHOST.")]
StartingOption = Annotated[
    str, typer.Option("--starting", help="Start of a new archive: earliest, an offset, or 15m.")
]
ContinuousOption = Annotated[
    float | None,
    typer.Option("--continuous", min=0.1, help="Keep running, with a batch every SECONDS."),
]
CompactOption = Annotated[bool, typer.Option("--compact", help="Afterwards, merge small files.")]
RetainOption = Annotated[
    int | None,
    typer.Option("--retain", min=0, help="Afterwards, delete data older than this many days."),
]


def command(
    to: ArchiveArgument,
    stream: StreamOption = "",
    pattern: PatternOption = "",
    uri: UriOption = "http://guest:guest@localhost:15672/",
    starting: StartingOption = "",
    continuous: ContinuousOption = None,
    compact: CompactOption = False,
    retain: RetainOption = None,
    master: MasterOption = "local[*]",
    memory: MemoryOption = "1g",
    as_json: JsonOption = False,
) -> None:
    """Copy streams to Parquet files, partitioned by stream and date.

    Each message is written exactly once, even if the job is killed and restarted: the checkpoint is
    kept in the archive. Without --continuous the job ends when it has reached the end of the
    streams. Without --stream and --pattern it only runs --compact and --retain.
    """
    with refusals():
        from penstock.spark.jobs import archive_care
        from penstock.spark.jobs.archive import ArchiveRefused, archive, is_begun
        from penstock.spark.jobs.lake_files import LakeFiles

        options = chosen_options(uri, stream, pattern, starting)
        copies = bool(stream or pattern)
        if not copies and not compact and retain is None:
            raise ArchiveRefused("Nothing to do: give --stream, --pattern, --compact or --retain.")
        if copies:
            check_streams(options)
        rows = compacted = removed = 0
        with progress(as_json) as tell, spark(master, memory, "archive", tell) as session:
            files = LakeFiles(session, to)
            archive_care.finish(files)
            if starting and is_begun(files):
                errors.print(
                    f"{to} already exists and continues at its checkpoint; --starting is ignored.",
                    highlight=False,
                    markup=False,
                )
            if copies:
                rows = _watch(archive(session, to, options, continuous), tell)
            if compact:
                tell("compacting")
                compacted = archive_care.compact(session, to)
            if retain is not None:
                tell("deleting old days")
                removed = archive_care.retain(session, to, retain, datetime.now(UTC).date())
    if as_json:
        print_json({"archived": rows, "folders_compacted": compacted, "days_removed": removed})
    else:
        Console().print(
            f"{rows:,} messages archived, {compacted:,} folders compacted, {removed:,} days deleted"
        )


def chosen_options(uri: str, stream: str, pattern: str, starting: str) -> dict[str, str]:
    """The options of the data source."""
    given = {
        "uri": uri,
        "stream": stream,
        "streamPattern": pattern,
        "startingOffsets": starting,
    }
    return {name: value for name, value in given.items() if value}


def check_streams(options: dict[str, str]) -> None:
    """Checked before Spark starts, which takes longer. Raises what the source would raise."""
    from penstock.spark.first_contact import check_source
    from penstock.spark.options import read_options

    check_source(read_options(options))


def _watch(query: "StreamingQuery", tell: Tell) -> int:
    """Wait until it ends, or for Ctrl-C; returns how many messages were archived."""
    counted: dict[int, int] = {}
    try:
        while not query.awaitTermination(LOOK_SECONDS):
            _count(query, counted)
            tell(f"archiving, {sum(counted.values()):,} messages")
    except KeyboardInterrupt:
        query.stop()
    _count(query, counted)
    return sum(counted.values())


def _count(query: "StreamingQuery", counted: dict[int, int]) -> None:
    for told in query.recentProgress:
        counted[told["batchId"]] = max(counted.get(told["batchId"], 0), told["numInputRows"])
