"""Long data that the disk's thread writes: what can be seen of them before and after, and failures."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from pathlib import Path
from random import Random

import pytest

from penstock.server.world.clock import MachineClock
from penstock.server.world.disk import MachineDisk
from penstock.server.world.late_write import LateWrite
from penstock.server.world.machine_file import LATE_BYTES_MIN, PIECES_MAX, SystemCalls
from penstock.storage.long_payload import LongPayload
from penstock.storage.segment import segment_name, segment_of
from penstock.world.disk import FlushListener
from tests.storage.doubles import RecordingOwner, journal_on, recovered

DEADLINE_SECONDS = 60.0


class HeldCalls(SystemCalls):
    """Writes of pieces wait for the test; they may be short, or fail."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.most = 1 << 40
        self.fails = 0
        self.calls = 0

    def write_pieces(self, descriptor: int, pieces: list[memoryview | bytes]) -> int:
        assert self.gate.wait(DEADLINE_SECONDS)
        self.calls += 1
        if self.fails:
            raise OSError(self.fails, os.strerror(self.fails))
        return os.write(descriptor, b"".join(pieces)[: self.most])


class Told(FlushListener):
    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.failures: list[str] = []

    def flushed(self, token: int, now: int) -> None:
        self.tokens.append(token)

    def flush_failed(self, reason: str, now: int) -> None:
        self.failures.append(reason)


async def until_told(told: Told | RecordingOwner) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not told.failures and not (told.tokens if isinstance(told, Told) else told.positions):
        assert time.monotonic() < deadline, "the flush is not answered"
        await asyncio.sleep(0.001)


def pieces_of(count: int, seed: int = 1) -> list[bytes]:
    """More than is written at once."""
    dice = Random(seed)
    size = LATE_BYTES_MIN // count + 1
    return [dice.randbytes(size + dice.randint(0, 9)) for _ in range(count)]


def disk_in(folder: Path, calls: SystemCalls) -> MachineDisk:
    return MachineDisk(folder, MachineClock(), asyncio.get_running_loop(), calls=calls)


def test_long_data_can_be_read_before_they_are_written(tmp_path: Path) -> None:
    async def story() -> None:
        calls = HeldCalls()
        disk = disk_in(tmp_path, calls)
        try:
            file = disk.open("file")
            file.append(b"before")
            pieces = pieces_of(50)
            expected = b"before" + b"".join(pieces) + b"behind" + b"".join(pieces)
            file.append_pieces(pieces)
            file.append(b"beh")
            file.append_from(b"behind", 3)
            assert file.append_pieces(pieces) == len(expected) == file.size()
            assert (tmp_path / "file").read_bytes() == b"before"
            dice = Random(2)
            spans = [(0, len(expected)), (0, 6), (3, 10), (len(expected) - 3, 10)]
            for _ in range(200):
                spans.append((dice.randint(0, len(expected)), dice.randint(0, 60_000)))
            for position, size in spans:
                assert file.read(position, size) == expected[position : position + size]
            calls.gate.set()
            told = Told()
            disk.flush([file], 7, told)
            await until_told(told)
            assert told.tokens == [7]
            assert (tmp_path / "file").read_bytes() == expected
            for position, size in spans:
                assert file.read(position, size) == expected[position : position + size]
            # Written at once again.
            file.append(b"end")
            assert (tmp_path / "file").read_bytes() == expected + b"end"
        finally:
            calls.gate.set()
            disk.close()

    asyncio.run(story())


def test_few_octets_in_pieces_are_written_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        disk = disk_in(tmp_path, HeldCalls())
        try:
            assert disk.open("file").append_pieces([b"one", b"two"]) == 6
            assert (tmp_path / "file").read_bytes() == b"onetwo"
        finally:
            disk.close()

    asyncio.run(story())


@pytest.mark.parametrize("most", [1 << 40, 70_001, 4096])
def test_short_writes_and_more_pieces_than_one_call_takes_are_no_loss(
    tmp_path: Path, most: int
) -> None:
    async def story() -> None:
        calls = HeldCalls()
        calls.gate.set()
        calls.most = most
        disk = disk_in(tmp_path, calls)
        try:
            pieces = [b"", *pieces_of(PIECES_MAX * 2 + 5), b""]
            disk.open("file").append_pieces(pieces)
        finally:
            disk.close()
        assert (tmp_path / "file").read_bytes() == b"".join(pieces)
        assert calls.calls >= 3

    asyncio.run(story())


def test_the_real_call_writes_what_the_double_writes(tmp_path: Path) -> None:
    async def story() -> None:
        disk = disk_in(tmp_path, SystemCalls())
        pieces = pieces_of(PIECES_MAX + 5)
        try:
            disk.open("file").append_pieces(pieces)
        finally:
            disk.close()
        assert (tmp_path / "file").read_bytes() == b"".join(pieces)

    asyncio.run(story())


def test_a_late_write_that_fails_fails_the_flush_and_nothing_is_written_behind_it(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        calls = HeldCalls()
        disk = disk_in(tmp_path, calls)
        try:
            file = disk.open("file")
            file.append(b"before")
            file.append_pieces(pieces_of(5))
            told = Told()
            calls.fails = errno.ENOSPC
            calls.gate.set()
            disk.flush([file], 7, told)
            await until_told(told)
            assert told.tokens == []
            assert told.failures == ["file: No space left on device"]
            calls.fails = 0
            file.append(b"behind")
            file.append_pieces(pieces_of(5))
        finally:
            calls.gate.set()
            disk.close()
        assert (tmp_path / "file").read_bytes() == b"before"

    asyncio.run(story())


def test_a_file_is_not_closed_under_a_late_write(tmp_path: Path) -> None:
    async def story() -> None:
        calls = HeldCalls()
        disk = MachineDisk(
            tmp_path, MachineClock(), asyncio.get_running_loop(), calls=calls, files_max=1
        )
        try:
            file = disk.open("file")
            pieces = pieces_of(5)
            file.append_pieces(pieces)
            told = Told()
            disk.flush([file], 1, told)
            # The descriptor is put away, and taken out again for one more octet.
            disk.open("other")
            file.append(b"x")
            calls.gate.set()
        finally:
            calls.gate.set()
            disk.close()
        assert (tmp_path / "file").read_bytes() == b"".join(pieces) + b"x"

    asyncio.run(story())


def test_a_long_batch_is_durable_only_when_it_is_written_and_is_recovered(tmp_path: Path) -> None:
    async def story() -> None:
        calls = HeldCalls()
        disk = disk_in(tmp_path, calls)
        owner = RecordingOwner()
        payload = LongPayload()
        try:
            journal = journal_on(disk, owner=owner)
            for piece in pieces_of(40):
                payload.add(piece)
            location = journal.append_long(payload)
            journal.append(b"small")
            journal.request_flush()
            assert journal.checked(location, 9).data
            assert owner.positions == []
            # A kill at this moment leaves nothing of either batch.
            name = segment_name(segment_of(location))
            assert (tmp_path / name).stat().st_size < payload.size
            calls.gate.set()
            await until_told(owner)
            assert owner.positions == [journal.position]
        finally:
            calls.gate.set()
            disk.close()
        again = disk_in(tmp_path, SystemCalls())
        try:
            assert recovered(again)[0] == [b"".join(payload.pieces), b"small"]
        finally:
            again.close()

    asyncio.run(story())


def test_a_late_write_knows_where_each_piece_stands() -> None:
    late = LateWrite(100, [b"abc", b"", b"defg"])
    assert late.end == 107
    assert [late.read(100, 3), late.read(102, 3), late.read(103, 99)] == [b"abc", b"cde", b"defg"]
    assert late.read(107, 1) == b""
