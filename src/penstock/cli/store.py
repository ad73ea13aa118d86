"""`penstock store`: check a data directory that no server uses, and salvage what is intact."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from penstock.cli.store_member import (
    MemberSurvey,
    files_to_go_on,
    highest_epoch,
    surveyed_member,
    what_it_is,
)
from penstock.cli.store_streams import (
    list_streams,
    salvage_streams,
    say_what_is_wrong_with,
    surveyed_streams,
)
from penstock.cluster.record import CLUSTER_ID_BYTES
from penstock.server.cluster_directory import make_alone
from penstock.server.data_directory import (
    DataDirectory,
    DataDirectoryError,
    NotOurDirectory,
    open_data_directory,
    open_to_read,
)
from penstock.server.world.clock import MachineClock
from penstock.server.world.disk import MachineDisk
from penstock.server.world.entropy import MachineEntropy
from penstock.storage.errors import Damaged, StorageError
from penstock.storage.journal import Journal, JournalListener
from penstock.storage.recovery import (
    BatchListener,
    OpenSegment,
    open_segments,
    recover,
    store_id_of,
    what_is_missing,
)
from penstock.storage.safe_point import SafePoint
from penstock.storage.segment import segment_name
from penstock.storage.stream_survey import StreamSurvey
from penstock.storage.survey import Gap, Survey
from penstock.world.disk import DiskError

app: Final = typer.Typer(
    help="Check or salvage a data directory that no server uses.", no_args_is_help=True
)

WHOLE: Final = 0
TORN: Final = 1
DAMAGED: Final = 2
REFUSED: Final = 3
VERDICTS: Final = {
    WHOLE: "verdict: intact",
    TORN: "verdict: torn tail (an incomplete last write), which the next start removes; no "
    "confirmed message is lost",
    DAMAGED: "verdict: damaged. Restore the files from a backup, or copy what is intact to a new "
    "directory with `penstock store salvage`",
}
# Smaller stores are read too quickly for a progress bar.
PROGRESS_BYTES_MIN: Final = 256 << 20

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The data directory of a server.")]
Target = Annotated[
    Path, typer.Option(metavar="NEWDIR", help="The new directory; it must not exist.")
]


@app.command()
def check(directory: Directory) -> None:
    """Read a data directory, including its streams, and report damage; changes nothing.

    The last line is the verdict. Exit code 0: intact. 1: a torn tail, an incomplete last write;
    the next start removes it, and nothing confirmed is lost. 2: damaged, or the journal is missing;
    a server refuses to start. 3: not a data directory, or in use.
    """
    with refusals():
        raise typer.Exit(asyncio.run(_check(directory)))


@app.command()
def salvage(directory: Directory, to: Target) -> None:
    """Copy everything that is intact to a new data directory and report what was lost; DIR is
    not changed.

    Exit code 0: nothing was lost. 1: an incomplete write at the end (a torn tail) was not copied.
    2: damaged parts were not copied; each is listed. 3: not a data directory, in use, or the new
    directory cannot be created.
    """
    with refusals():
        if to.exists():
            raise NotOurDirectory(f"{to} already exists. Name a directory that does not exist")
        raise typer.Exit(asyncio.run(_salvage(directory, to)))


@contextmanager
def refusals() -> Iterator[None]:
    """Prints why it cannot be done, and exits with the code for it."""
    try:
        yield
    except Damaged as error:
        typer.echo(f"Error: {error}.", err=True)
        raise typer.Exit(DAMAGED) from error
    except (DataDirectoryError, StorageError, DiskError) as error:
        typer.echo(f"Error: {error}.", err=True)
        raise typer.Exit(REFUSED) from error


async def _check(path: Path) -> int:
    with opened(path) as (directory, disk):
        segments = open_segments(disk)
        safe_point = SafePoint(disk)
        survey = surveyed(directory, segments, safe_point)
        for segment in survey.segments:
            typer.echo(f"{segment.name}: {segment.batch_count} batches, {segment.octets} bytes")
        streams = surveyed_streams(disk, safe_point)
        list_streams(streams)
        code = max(say_what_is_wrong(survey, segments, safe_point), verdict_on(streams))
        code = max(code, say_what_member_it_is(surveyed_member(path, disk)))
        typer.echo(VERDICTS[code])
        return code


async def _salvage(path: Path, to: Path) -> int:
    with opened(path) as (directory, disk):
        segments = open_segments(disk)
        safe_point = SafePoint(disk)
        survey = surveyed(directory, segments, safe_point)
        torn = survey.torn_tail()
        made = open_data_directory(to, MachineClock(), MachineEntropy())
        target = MachineDisk(to, MachineClock(), asyncio.get_running_loop())
        try:
            member = surveyed_member(path, disk)
            end = 0 if torn is None else torn.location
            copier = Copier(target, made, end, member is not None)
            again = Survey(store_id_of(segments) or directory.store_id)
            for segment in shown("Copying", segments):
                again.add(segment, copier)
            await copier.finish()
            streams = surveyed_streams(disk, safe_point)
            await salvage_streams(streams, target)
            if member is not None:
                entropy = MachineEntropy()
                files = files_to_go_on(member, entropy)
                cluster_id = entropy.octets(CLUSTER_ID_BYTES)
                make_alone(made, files, max(member.epoch, copier.epoch), cluster_id, target)
                typer.echo(what_it_is(files))
        finally:
            target.close()
            made.close()
        typer.echo(f"{copier.count} batches, {copier.octets} bytes copied to {to}")
        code = max(say_what_is_wrong(survey, segments, safe_point), verdict_on(streams))
        return max(code, say_what_member_it_is(member))


def say_what_member_it_is(member: MemberSurvey | None) -> int:
    """Returns the exit code."""
    if member is None:
        return WHOLE
    for line in member.lines():
        typer.echo(line)
    return DAMAGED if member.damage else WHOLE


@contextmanager
def opened(path: Path) -> Iterator[tuple[DataDirectory, MachineDisk]]:
    directory = open_to_read(path)
    disk = MachineDisk(path, MachineClock(), asyncio.get_running_loop(), is_read_only=True)
    try:
        yield directory, disk
    finally:
        disk.close()
        directory.close()


class Nothing(BatchListener):
    """A check only counts."""

    def batch(self, location: int, payload: bytes) -> None:
        return


class Finish(JournalListener):
    """Waits for the one flush at the end. Held by the copier and its journal."""

    def __init__(self) -> None:
        self.heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def durable(self, position: int, now: int) -> None:
        self.heard.set_result(None)

    def failed(self, reason: str, now: int) -> None:
        if not self.heard.done():
            self.heard.set_exception(DiskError(reason))


class Copier(BatchListener):
    """Appends every batch up to the torn tail to a new journal. Held by one salvage."""

    def __init__(
        self, disk: MachineDisk, made: DataDirectory, end: int, is_of_member: bool
    ) -> None:
        self._finish = Finish()
        self._journal = Journal(disk, self._finish, recover(disk, made.store_id, Nothing()))
        self._end = end
        self.count = 0
        self.octets = 0
        self._is_of_member = is_of_member
        # The highest of its cluster that was met.
        self.epoch = 0

    def batch(self, location: int, payload: bytes) -> None:
        if not self._end or location < self._end:
            self._journal.append(payload)
            if self._is_of_member:
                self.epoch = max(self.epoch, highest_epoch(payload))
            self.count += 1
            self.octets += len(payload)

    async def finish(self) -> None:
        self._journal.request_flush()
        await self._finish.heard


def surveyed(
    directory: DataDirectory, segments: list[OpenSegment], safe_point: SafePoint
) -> Survey:
    survey = Survey(store_id_of(segments) or directory.store_id, safe_point.position())
    nothing = Nothing()
    for segment in shown("Reading", segments):
        survey.add(segment, nothing)
    return survey


def shown(verb: str, segments: list[OpenSegment]) -> Iterable[OpenSegment]:
    """The segments one by one, with a progress bar when that takes long."""
    from rich.console import Console
    from rich.progress import track

    total = sum(segment.file.size() for segment in segments)
    return track(
        segments,
        verb,
        console=Console(stderr=True),
        transient=True,
        disable=total < PROGRESS_BYTES_MIN,
    )


def say_what_is_wrong(survey: Survey, segments: list[OpenSegment], safe_point: SafePoint) -> int:
    """Returns the exit code."""
    if not segments:
        typer.echo(f"missing: {what_is_gone(safe_point)}")
        return DAMAGED
    for gap in survey.damage():
        typer.echo(f"damaged: {described(gap)}")
    missing = survey.missing_octets()
    if missing:
        last = segments[-1]
        typer.echo(f"damaged: {last.name} at offset {last.file.size()}: {what_is_missing(missing)}")
    torn = survey.torn_tail()
    if torn is not None:
        behind = [s.file.size() for s in segments if s.name > torn.file]
        typer.echo(f"torn tail: {described(torn)}")
        if behind:
            typer.echo(f"torn tail: and {len(behind)} later segments, {sum(behind)} bytes")
    if survey.damage() or missing:
        return DAMAGED
    return WHOLE if torn is None else TORN


def what_is_gone(safe_point: SafePoint) -> str:
    """What is missing in a store without any segment."""
    if safe_point.position():
        return (
            f"{segment_name(safe_point.segment())} and every other segment of the journal; "
            f"it held {safe_point.position()} durable bytes"
        )
    return (
        "the journal has no segments. Either no server has written to this directory yet, or the "
        "files were deleted"
    )


def verdict_on(streams: list[StreamSurvey]) -> int:
    """Prints the problems of each; returns the exit code."""
    code = WHOLE
    for survey in streams:
        say_what_is_wrong_with(survey)
        if survey.damage():
            code = DAMAGED
        elif survey.torn_tail() is not None:
            code = max(code, TORN)
    return code


def described(gap: Gap) -> str:
    if gap.missing_octets:
        return f"{gap.file} at offset 0: the {gap.missing_octets} bytes before it are missing"
    return f"{gap.file} from offset {gap.offset} to {gap.offset + gap.octets}: {gap.octets} bytes"
