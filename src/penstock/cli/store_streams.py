"""`penstock store` and streams: what a check says of each, and how a salvage copies it.

Intact segments are copied as they are. A damaged one is rewritten with its offsets: a lost message
is replaced by an empty one with the header `x-salvage-lost`, because an offset must never refer to
another message.
"""

import asyncio
from typing import Final

import typer

from penstock.broker.sent import ID_OCTETS
from penstock.broker.streams.files import FIRST_OFFSET
from penstock.broker.streams.folders import described_folder, folders_of
from penstock.formats.stream_index import HAS_PUBLISHER, NOTED
from penstock.formats.stream_payload import SIZE_WIDTH, PayloadParts
from penstock.server.world.disk import MachineDisk
from penstock.storage.number_table import encode_numbers
from penstock.storage.publisher_notes import PublisherNote, encode_table
from penstock.storage.safe_point import SafePoint
from penstock.storage.stream_log import StreamLog
from penstock.storage.stream_survey import StreamSurvey
from penstock.storage.stream_walk import MessageListener, Problem
from penstock.wire.amqp091.content import BasicProperties, encode_header
from penstock.world.disk import AppendFile, DiskError, FlushListener

LOST_HEADER: Final = "x-salvage-lost"
NO_ADDRESS: Final = b"\0\0"
# Copied at once.
COPY_BYTES: Final = 4 * 1024 * 1024
# A rewritten segment stays one segment, whatever its size was.
NEVER_ROLL: Final = 1 << 62


def surveyed_streams(disk: MachineDisk, safe_point: SafePoint) -> list[StreamSurvey]:
    ends = safe_point.ends()
    found = folders_of(disk.names())
    # A stream whose folder is missing is listed too.
    folders = list(found) + [folder for folder in ends if folder not in found]
    return [
        StreamSurvey(disk, folder, found.get(folder, []), FIRST_OFFSET, ends.get(folder, 0))
        for folder in folders
    ]


def list_streams(surveys: list[StreamSurvey]) -> None:
    for survey in surveys:
        octets = sum(walk.octets for walk in survey.walks)
        cursors = len(survey.cursors.numbers) - (FIRST_OFFSET in survey.cursors.numbers)
        typer.echo(
            f"{described_folder(survey.folder)} in {survey.folder}: "
            f"{len(survey.numbers)} segments, offsets {survey.first_offset()} to "
            f"{survey.end_offset()}, {octets} bytes, {cursors} cursors"
        )


def say_what_is_wrong_with(survey: StreamSurvey) -> None:
    for problem in survey.damage():
        typer.echo(f"damaged: {described(problem)}")
    torn = survey.torn_tail()
    if torn is not None:
        typer.echo(
            f"torn tail: {torn.file} from offset {torn.at}: messages from offset {torn.offset} on"
        )


def described(problem: Problem) -> str:
    place = f"{problem.file} at offset {problem.at}"
    if problem.count == 0:
        return f"{place}: {problem.what}"
    if problem.count == 1:
        return f"{place}: message {problem.offset} is {problem.what}"
    last = problem.offset + problem.count - 1
    return f"{place}: messages {problem.offset} to {last} are {problem.what}"


class Answer(FlushListener):
    """Waits for one flush."""

    def __init__(self) -> None:
        self.heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def flushed(self, token: int, now: int) -> None:
        self.heard.set_result(None)

    def flush_failed(self, reason: str, now: int) -> None:
        self.heard.set_exception(DiskError(reason))


class Rewriter(MessageListener):
    """Writes the messages of a damaged segment to a new one. Held by one salvage."""

    def __init__(self, disk: MachineDisk, folder: str, first_offset: int, end: int) -> None:
        self.log = StreamLog(disk, folder, [], NEVER_ROLL, 0, first_offset)
        self._end = end
        self._lost = encode_header(0, BasicProperties(headers={LOST_HEADER: True}))
        self.lost_count = 0

    def message(self, offset: int, timestamp: int, flags: int, payload: bytes) -> None:
        if offset >= self._end:
            return
        parts = PayloadParts(payload, 0)
        address = payload[: parts.header - SIZE_WIDTH]
        header = payload[parts.header : parts.body - SIZE_WIDTH]
        if ID_OCTETS in header:
            # Its own flags may be lost; a reader of a flagged message finds out.
            flags |= HAS_PUBLISHER
        # The progress of sinks is copied in a new note.
        self._add(address, header, payload[parts.body :], flags & ~NOTED, timestamp)

    def lost(self, offset: int, timestamp: int) -> None:
        if offset < self._end:
            self._add(NO_ADDRESS, self._lost, b"", 0, timestamp)
            self.lost_count += 1

    def _add(self, address: bytes, header: bytes, body: bytes, flags: int, timestamp: int) -> None:
        self.log.add(address, header, body, flags, timestamp)
        if self.log.is_full_batch():
            self.log.write()


class StreamSalvage:
    """Copies one stream to another disk. Held while it does."""

    def __init__(self, survey: StreamSurvey, disk: MachineDisk) -> None:
        self._survey = survey
        self._disk = disk
        self.lost_count = 0
        # First offsets of rewritten segments.
        self._rewritten: set[int] = set()

    async def run(self) -> None:
        survey = self._survey
        torn = survey.torn_tail()
        for place, walk in enumerate(survey.walks):
            if torn is not None and walk.segment.first_offset > torn.offset:
                break
            if walk.problems:
                await self._rewrite(place, survey.end_offset())
            else:
                await self._copy(walk.segment.log_name)
                await self._copy(walk.segment.index_name)
        for name in survey.notes:
            first_offset = int(name[-24:-4])
            if first_offset in self._rewritten:
                await self._rewrite_note(name, survey.said.get(first_offset))
            elif torn is None or first_offset <= torn.offset:
                await self._copy(name)
        if survey.cursors.numbers:
            file = self._disk.open(f"{survey.folder}/cursors-{1:010d}.tab")
            file.append(encode_numbers(survey.cursors.numbers))
            await self._finish([file])

    async def _copy(self, name: str) -> None:
        source = self._survey.open(name)
        assert source is not None, "only what is there is copied"
        target = self._disk.open(name)
        for at in range(0, source.size(), COPY_BYTES):
            target.append(source.read(at, COPY_BYTES))
        source.close()
        await self._finish([target])

    async def _rewrite(self, place: int, end: int) -> None:
        survey = self._survey
        self._rewritten.add(survey.numbers[place])
        rewriter = Rewriter(self._disk, survey.folder, survey.numbers[place], end)
        survey.walk(place, rewriter)
        rewriter.log.write()
        self.lost_count += rewriter.lost_count
        await self._finish(rewriter.log.dirty_files())

    async def _rewrite_note(self, name: str, said: PublisherNote | None) -> None:
        """The marks of the old note would not match the new index."""
        if said is not None and said.is_begun:
            file = self._disk.open(name)
            file.append(encode_table(said.sequences, said.stages))
            await self._finish([file])

    async def _finish(self, files: list[AppendFile]) -> None:
        answer = Answer()
        self._disk.flush(files, 0, answer)
        await answer.heard
        for file in files:
            file.close()


async def salvage_streams(surveys: list[StreamSurvey], disk: MachineDisk) -> None:
    for survey in surveys:
        salvage = StreamSalvage(survey, disk)
        await salvage.run()
        lost = f", {salvage.lost_count} messages lost" if salvage.lost_count else ""
        count = survey.end_offset() - survey.first_offset() - salvage.lost_count
        typer.echo(f"{described_folder(survey.folder)}: {count} messages copied{lost}")
