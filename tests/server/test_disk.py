"""The machine's disk: real files, one flusher thread, and what it says of a disk that fails."""

import asyncio
import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.server.world.clock import MachineClock
from penstock.server.world.disk import MachineDisk
from penstock.server.world.machine_file import SystemCalls
from penstock.world.disk import AppendFile, DiskError, FlushListener

DEADLINE_SECONDS = 10


class Heard(FlushListener):
    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.failures: list[str] = []
        self.threads: set[int] = set()
        self._news = asyncio.Event()

    def flushed(self, token: int, now: int) -> None:
        self.tokens.append(token)
        self.threads.add(threading.get_ident())
        self._news.set()

    def flush_failed(self, reason: str, now: int) -> None:
        self.failures.append(reason)
        self._news.set()

    async def news(self, count: int) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while len(self.tokens) + len(self.failures) < count:
                self._news.clear()
                await self._news.wait()


class WatchedCalls(SystemCalls):
    """Notes what is flushed; fails or writes short when told to. A flush waits for the gate."""

    def __init__(self) -> None:
        self.flushed: list[str] = []
        self.room = 1 << 30
        self.fails: set[str] = set()
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Event()

    def write(self, descriptor: int, data: memoryview | bytes) -> int:
        size = min(len(data), self.room)
        if not size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= size
        return super().write(descriptor, data[:size])

    def flush_file(self, descriptor: int) -> None:
        self.begun.set()
        assert self.gate.wait(DEADLINE_SECONDS)
        self._flushed(descriptor)
        super().flush_file(descriptor)

    def flush_folder(self, descriptor: int) -> None:
        self._flushed(descriptor)
        super().flush_folder(descriptor)

    def _flushed(self, descriptor: int) -> None:
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        if name in self.fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.flushed.append(name)


@contextmanager
def disk_on(
    folder: Path, calls: SystemCalls | None = None, *, is_read_only: bool = False
) -> Iterator[MachineDisk]:
    loop = asyncio.get_running_loop()
    disk = MachineDisk(folder, MachineClock(), loop, is_read_only=is_read_only, calls=calls)
    try:
        yield disk
    finally:
        disk.close()


def test_what_is_appended_is_read_back_and_is_there_for_the_next_process(tmp_path: Path) -> None:
    async def story() -> None:
        with disk_on(tmp_path) as disk:
            file = disk.open("journal/1.log")
            assert [file.append(b"hello "), file.append(b"world")] == [6, 11]
            assert (file.size(), file.read(6, 100), file.read(11, 5)) == (11, b"world", b"")
            assert disk.open("journal/1.log") is file
        with disk_on(tmp_path) as disk:
            file = disk.open("journal/1.log")
            assert file.read(0, 11) == b"hello world"
            file.truncate(5)
            assert (file.size(), file.append(b"!"), file.read(0, 9)) == (5, 6, b"hello!")

    asyncio.run(story())


def test_names_are_sorted_and_folders_come_and_go_with_their_files(tmp_path: Path) -> None:
    async def story() -> None:
        with disk_on(tmp_path) as disk:
            for name in ("b", "streams/x/1", "a", "journal/2", "journal/1"):
                disk.open(name)
            assert disk.names() == ["a", "b", "journal/1", "journal/2", "streams/x/1"]
            disk.remove("streams/x/1")
            disk.remove("journal/1")
            assert disk.names() == ["a", "b", "journal/2"]

    asyncio.run(story())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "journal"]


def test_files_and_folders_are_for_their_owner_only(tmp_path: Path) -> None:
    async def story() -> None:
        with disk_on(tmp_path) as disk:
            disk.open("journal/1.log")

    asyncio.run(story())
    assert (tmp_path / "journal").stat().st_mode & 0o077 == 0
    assert (tmp_path / "journal/1.log").stat().st_mode & 0o077 == 0


def test_flushes_are_heard_in_order_on_the_loops_thread(tmp_path: Path) -> None:
    async def story() -> None:
        heard = Heard()
        answers = 0

        def answered() -> None:
            nonlocal answers
            answers += 1

        with disk_on(tmp_path) as disk:
            disk.after_answer = answered
            file = disk.open("file")
            for token in range(1, 21):
                file.append(b"x")
                disk.flush([file], token, heard)
            assert heard.tokens == [], "never at once"
            await heard.news(20)
        assert heard.tokens == list(range(1, 21))
        assert heard.threads == {threading.get_ident()}
        assert answers == 20

    asyncio.run(story())


def test_a_flush_waits_for_the_end_of_the_tick_and_closing_for_it(tmp_path: Path) -> None:
    async def story() -> None:
        calls = WatchedCalls()
        heard = Heard()
        with disk_on(tmp_path, calls) as disk:
            file = disk.open("a")
            file.append(b"1")
            disk.flush([file], 1, heard)
            # Long enough for a thread that has been told; one that has not is never too early.
            assert not calls.begun.wait(0.1)
            await heard.news(1)
            # The thread has not heard of this one when the file goes, and the disk.
            calls.flushed.clear()
            disk.flush([file], 2, heard)
            disk.open("b").close()
            file.close()
        assert calls.flushed[0] == "a"

    asyncio.run(story())


def test_a_folder_is_flushed_at_first_and_when_files_came_or_went(tmp_path: Path) -> None:
    (tmp_path / "journal" / "old").mkdir(parents=True)

    async def story() -> None:
        heard = Heard()
        calls = WatchedCalls()
        with disk_on(tmp_path, calls) as disk:

            async def flushed(*files: AppendFile) -> set[str]:
                calls.flushed.clear()
                disk.flush(list(files), 0, heard)
                await heard.news(len(heard.tokens) + 1)
                assert len(calls.flushed) == len(set(calls.flushed))
                return set(calls.flushed)

            first = disk.open("journal/1")
            assert await flushed(first) == {"1", "journal", "old", tmp_path.name}
            first.append(b"x")
            assert await flushed(first) == {"1"}
            disk.open("journal/2").append(b"x")
            assert await flushed(first) == {"1", "journal"}
            disk.remove("journal/2")
            assert await flushed() == {"journal"}
            disk.open("spool/1")
            assert await flushed() == {"spool", tmp_path.name}
            disk.remove("spool/1")
            assert await flushed() == {tmp_path.name}
            assert await flushed() == set()

    asyncio.run(story())


def test_the_loop_goes_on_while_the_disk_is_slow(tmp_path: Path) -> None:
    async def story() -> None:
        heard = Heard()
        calls = WatchedCalls()
        calls.gate.clear()
        with disk_on(tmp_path, calls) as disk:
            file = disk.open("file")
            file.append(b"x")
            disk.flush([file], 1, heard)
            assert file.append(b"y") == 2
            # Closed behind the flush, not under it.
            disk.remove("file")
            await asyncio.sleep(0)
            assert heard.tokens == []
            calls.gate.set()
            await heard.news(1)
        assert (heard.tokens, heard.failures) == ([1], [])

    asyncio.run(story())


@pytest.mark.parametrize("failing", ["file", "folder"])
def test_a_failed_flush_names_file_and_reason(tmp_path: Path, failing: str) -> None:
    async def story() -> None:
        heard = Heard()
        calls = WatchedCalls()
        calls.fails = {failing}
        with disk_on(tmp_path, calls) as disk:
            file = disk.open("folder/file")
            file.append(b"x")
            disk.flush([file], 1, heard)
            await heard.news(1)
        assert heard.tokens == []
        (reason,) = heard.failures
        assert f"folder{'/file' if failing == 'file' else ''}: Input/output error" in reason

    asyncio.run(story())


def test_what_recovery_waits_for_is_flushed_when_it_returns(tmp_path: Path) -> None:
    async def story() -> None:
        calls = WatchedCalls()
        with disk_on(tmp_path, calls) as disk:
            file = disk.open("journal/1")
            disk.open("journal/2")
            disk.remove("journal/2")
            disk.flush_now([file])
            assert sorted(calls.flushed) == sorted(["1", "journal", tmp_path.name])
            calls.fails = {"1"}
            with pytest.raises(DiskError, match="journal/1: Input/output error"):
                disk.flush_now([file])

    asyncio.run(story())


def test_a_full_disk_is_an_error_with_file_and_reason_and_the_size_stays_true(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        calls = WatchedCalls()
        calls.room = 5
        with disk_on(tmp_path, calls) as disk:
            file = disk.open("journal/1.log")
            with pytest.raises(DiskError, match=r"journal/1\.log: No space left on device"):
                file.append(b"0123456789")
            assert (file.size(), file.read(0, 10)) == (5, b"01234")

    asyncio.run(story())


def test_a_file_that_cannot_be_made_is_an_error_with_file_and_reason(tmp_path: Path) -> None:
    (tmp_path / "journal").write_text("a file")

    async def story() -> None:
        with disk_on(tmp_path) as disk:
            with pytest.raises(DiskError, match=r"journal/1\.log: Not a directory"):
                disk.open("journal/1.log")
            with pytest.raises(DiskError, match="nothing: No such file"):
                disk.remove("nothing")

    asyncio.run(story())


def test_a_disk_opened_to_read_makes_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")

    async def story() -> None:
        with disk_on(tmp_path, is_read_only=True) as disk:
            file = disk.open("file")
            assert file.read(0, 10) == b"content"
            with pytest.raises(DiskError):
                file.append(b"more")
            with pytest.raises(DiskError):
                disk.open("journal/1.log")

    asyncio.run(story())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_room_left_is_the_file_systems(tmp_path: Path) -> None:
    async def story() -> None:
        with disk_on(tmp_path) as disk:
            stat = os.statvfs(tmp_path)
            total = stat.f_blocks * stat.f_frsize
            assert 0 < disk.free_bytes() <= total

    asyncio.run(story())


def test_closing_ends_the_thread_and_closes_the_files(tmp_path: Path) -> None:
    def open_here() -> list[str]:
        links = []
        for path in Path("/proc/self/fd").iterdir():
            try:
                links.append(str(path.readlink()))
            except FileNotFoundError:  # the listing's own
                continue
        # Not the folders, which a flush opens for a moment.
        return [link for link in links if link in {f"{tmp_path}/a", f"{tmp_path}/b"}]

    async def story() -> None:
        heard = Heard()
        with disk_on(tmp_path) as disk:
            for name in ("a", "b"):
                disk.open(name).append(b"x")
            disk.flush([disk.open("a")], 1, heard)
            assert len(open_here()) == 2
        assert open_here() == []
        assert not disk.has_thread()

    asyncio.run(story())


def test_an_answer_after_the_loop_has_ended_is_dropped(tmp_path: Path) -> None:
    heard: list[Heard] = []
    disks: list[MachineDisk] = []
    calls = WatchedCalls()
    calls.gate.clear()

    async def story() -> None:
        disk = MachineDisk(tmp_path, MachineClock(), asyncio.get_running_loop(), calls=calls)
        disks.append(disk)
        heard.append(Heard())
        file = disk.open("file")
        disk.flush([file], 1, heard[0])

    asyncio.run(story())
    calls.gate.set()
    disks[0].close()
    assert heard[0].tokens == []


def descriptors_in(folder: Path) -> int:
    """How many files of this folder are open."""
    found = 0
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found += folder in entry.readlink().parents
        except FileNotFoundError:
            # The one that lists them.
            continue
    return found


async def until_open(folder: Path, count: int) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while descriptors_in(folder) != count:
            await asyncio.sleep(0.005)


def test_files_beyond_the_limit_are_put_away_and_opened_again(tmp_path: Path) -> None:
    async def story() -> None:
        heard = Heard()
        loop = asyncio.get_running_loop()
        disk = MachineDisk(tmp_path, MachineClock(), loop, files_max=3)
        files = [disk.open(f"f{number}") for number in range(8)]
        for number, file in enumerate(files):
            file.append(b"%d" % number)
        # Nothing is put away that waits for its flush.
        await until_open(tmp_path, 8)
        disk.flush(files, 1, heard)
        await heard.news(1)
        disk.open("one more")
        await until_open(tmp_path, 3)
        for number, file in enumerate(files):
            assert file.append(b"!") == 2
            assert file.read(0, 9) == b"%d!" % number
        disk.flush(files, 2, heard)
        await heard.news(2)
        assert heard.failures == []
        disk.close()
        assert descriptors_in(tmp_path) == 0

    asyncio.run(story())


def test_all_files_of_one_flush_are_open_when_it_is_done(tmp_path: Path) -> None:
    async def story() -> None:
        calls, heard = WatchedCalls(), Heard()
        loop = asyncio.get_running_loop()
        disk = MachineDisk(tmp_path, MachineClock(), loop, calls=calls, files_max=1)
        files = [disk.open(f"f{number}") for number in range(4)]
        await until_open(tmp_path, 1)
        disk.flush(files, 1, heard)
        await heard.news(1)
        assert heard.failures == []
        assert {f"f{number}" for number in range(4)} <= set(calls.flushed)
        disk.close()

    asyncio.run(story())


def test_a_file_that_was_put_away_and_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    async def story() -> None:
        disk = MachineDisk(tmp_path, MachineClock(), asyncio.get_running_loop(), files_max=1)
        first = disk.open("first")
        disk.open("second")
        (tmp_path / "first").unlink()
        with pytest.raises(DiskError, match="first: No such file"):
            first.read(0, 1)
        disk.close()

    asyncio.run(story())


class DefectiveCalls(SystemCalls):
    """Raises what no disk does."""

    def flush_file(self, descriptor: int) -> None:
        raise ZeroDivisionError("planted")


class DefectiveListener(Heard):
    def flushed(self, token: int, now: int) -> None:
        super().flushed(token, now)
        raise ZeroDivisionError("planted")


def test_a_flush_is_answered_whatever_goes_wrong_on_the_thread(tmp_path: Path) -> None:
    async def story() -> None:
        heard = Heard()
        with disk_on(tmp_path, DefectiveCalls()) as disk:
            disk.flush([disk.open("f")], 1, heard)
            await heard.news(1)
            assert heard.tokens == []
            assert "ZeroDivisionError" in heard.failures[0]
            assert disk.has_thread()

    asyncio.run(story())


def test_a_defect_of_who_hears_of_a_flush_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        heard, told = DefectiveListener(), asyncio.Queue[tuple[str, Exception]]()
        with disk_on(tmp_path) as disk:
            disk.when_it_fails = lambda doing, error: told.put_nowait((doing, error))
            disk.flush([disk.open("f")], 1, heard)
            async with asyncio.timeout(DEADLINE_SECONDS):
                doing, error = await told.get()
            assert "flush" in doing
            assert isinstance(error, ZeroDivisionError)

    asyncio.run(story())


def test_it_is_known_since_when_a_flush_runs(tmp_path: Path) -> None:
    async def story() -> None:
        calls, heard, clock = WatchedCalls(), Heard(), MachineClock()
        with disk_on(tmp_path, calls) as disk:
            file = disk.open("f")
            assert disk.flushing_since() == -1
            calls.gate.clear()
            began = clock.now()
            disk.flush([file], 1, heard)
            disk.flush([file], 2, heard)
            assert 0 <= disk.flushing_since() - began <= DEADLINE_SECONDS * 1000
            calls.gate.set()
            await heard.news(2)
            assert disk.flushing_since() == -1

    asyncio.run(story())
