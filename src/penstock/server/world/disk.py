"""A folder of the machine's disk.

Appending and reading are plain system calls into the page cache; one thread does what may wait for
the disk: flushing, closing files that were removed, which is when their blocks are freed, and writing
what is very long. It works in the order it was asked in, so a file is never closed under a flush, and
a flush covers what was to be written before.

The thread hears of a flush when the tick is over. Python lets one thread run at a time: if it woke up
while the rest of the tick writes to sockets, the two would pass the interpreter to and fro.

Not every file keeps its descriptor: beyond `files_max` those that were opened longest ago and have
nothing to flush are closed, and opened again when they are needed.

Invariant: every flush is answered. Any error on the thread is reported as a failed flush, or to
`when_it_fails`; an unanswered flush would keep every publisher waiting silently.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from penstock.server.descriptors import OUT_OF_DESCRIPTORS, SpareDescriptor
from penstock.server.world.machine_file import FileOwner, MachineFile, SystemCalls, why
from penstock.world.clock import Clock
from penstock.world.disk import AppendFile, Disk, DiskError, FlushListener

_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
# The default for tools that read one data directory.
FILES_MAX: Final = 256


class MachineDisk(Disk, FileOwner):
    """Held by the server. `close` it, or its thread stays."""

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        *,
        is_read_only: bool = False,
        calls: SystemCalls | None = None,
        files_max: int = FILES_MAX,
    ) -> None:
        # Called after each answer to a flush, when set: the server's tick writes what it led to.
        self.after_answer: Callable[[], None] | None = None
        # Called on the loop for an internal error, with what was being done and the exception.
        self.when_it_fails: Callable[[str, Exception], None] | None = None
        # When each flush was asked for that was not answered yet.
        self._asked_at: deque[int] = deque()
        self.calls = calls or SystemCalls()
        self._folder = folder
        self._clock = clock
        self._loop = loop
        self._flags = os.O_RDONLY if is_read_only else os.O_RDWR | os.O_APPEND | os.O_CREAT
        self._files: dict[str, MachineFile] = {}
        self._files_max = files_max
        # Files with a descriptor, the one that was opened longest ago first.
        self._open_files: dict[MachineFile, None] = {}
        # The journal's next segment must be opened even when sockets use all descriptors.
        self._spare = SpareDescriptor()
        # Folders in which files came or went since they were last flushed. Those of an earlier
        # process may not be durable either, so each is flushed at least once.
        self._changed_folders: set[Path] = set()
        self._is_first_flush = True
        # Flushes that the thread has not heard of yet, and what it has, in order; None ends it.
        self._asked: list[Callable[[], None]] = []
        self._work: queue.SimpleQueue[list[Callable[[], None]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="penstock-disk", daemon=True)
        self._thread.start()

    def open(self, name: str) -> AppendFile:
        file = self._files.get(name)
        if file is None:
            path = self._folder / name
            try:
                self._make_folder(path.parent)
                descriptor = self._descriptor_of(path, self._flags)
            except OSError as error:
                raise why(name, error) from error
            file = MachineFile(self, name, descriptor)
            self._files[name] = file
            self._open_files[file] = None
            self._put_away_some()
            if not file.size():
                self._changed_folders.add(path.parent)
        return file

    def open_again(self, file: MachineFile) -> None:
        path = self._folder / file.name
        try:
            # It is not created again: a missing file has lost its content.
            file.descriptor = self._descriptor_of(path, self._flags & ~os.O_CREAT)
        except OSError as error:
            raise why(file.name, error) from error
        self._open_files[file] = None
        self._put_away_some()

    def _descriptor_of(self, path: Path, flags: int) -> int:
        try:
            return os.open(path, flags | os.O_CLOEXEC, _FILE_MODE)
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS or not self._spare.release():
                raise
        try:
            return os.open(path, flags | os.O_CLOEXEC, _FILE_MODE)
        finally:
            # Close what can be closed, so that there is a spare descriptor again the next time.
            self._put_away_some(len(self._open_files) // 2)

    def _put_away_some(self, kept_count: int | None = None) -> None:
        """Close files beyond the limit that have nothing to flush. If there are none, more are
        open: a limit is better exceeded than a write refused.
        """
        excess = len(self._open_files) - (self._files_max if kept_count is None else kept_count)
        if excess <= 0:
            self._spare.take_back()
            return
        # Not the last one, which is about to be used.
        for file in list(self._open_files)[:-1]:
            if excess <= 0:
                return
            if not file.is_dirty:
                self._put_away(file)
                excess -= 1

    def _put_away(self, file: MachineFile) -> None:
        """The thread closes it after the flushes that it has been asked for."""
        descriptor, file.descriptor = file.descriptor, -1
        del self._open_files[file]
        self._ask(partial(os.close, descriptor))

    def _make_folder(self, folder: Path) -> None:
        if not folder.exists() and self._flags & os.O_CREAT:
            self._make_folder(folder.parent)
            folder.mkdir(_FOLDER_MODE)
            self._changed_folders.add(folder.parent)

    def names(self) -> list[str]:
        found: list[str] = []
        try:
            for folder, _, files in os.walk(self._folder, onerror=_raise):
                relative = Path(folder).relative_to(self._folder)
                found += [(relative / file).as_posix() for file in files]
        except OSError as error:
            raise why(str(self._folder), error) from error
        return sorted(found)

    def remove(self, name: str) -> None:
        path = self._folder / name
        try:
            path.unlink()
        except OSError as error:
            raise why(name, error) from error
        self._changed_folders.add(path.parent)
        file = self._files.get(name)
        if file is not None:
            file.close()
        self._remove_empty(path.parent)

    def _remove_empty(self, folder: Path) -> None:
        """Remove folders that have no files left."""
        while folder != self._folder:
            try:
                folder.rmdir()
            except OSError:
                return
            folder = folder.parent
            self._changed_folders.add(folder)

    def close_file(self, name: str, file: MachineFile) -> None:
        if self._files.get(name) is file:
            del self._files[name]
            if file.descriptor >= 0:
                self._put_away(file)

    def flush(self, files: list[AppendFile], token: int, listener: FlushListener) -> None:
        descriptors: list[tuple[MachineFile, int]] = []
        flushed: list[MachineFile] = []
        for file in files:
            assert isinstance(file, MachineFile), "every disk has its own kind of file"
            # Otherwise opening the next one could close it before the thread is asked.
            file.is_dirty = True
            flushed.append(file)
            descriptors.append((file, file.opened()))
        folders = self._changed_folders
        self._changed_folders = set()
        is_first = self._is_first_flush
        self._is_first_flush = False
        self._asked_at.append(self._clock.now())
        if not self._asked:
            # Twice: behind the tick that is asked for with the answer to the flush before.
            self._loop.call_soon(self._loop.call_soon, self._hand_over)
        self._asked.append(partial(self._flush, descriptors, folders, is_first, token, listener))
        for machine_file in flushed:
            machine_file.is_dirty = False

    def flush_now(self, files: list[AppendFile]) -> None:
        descriptors: list[tuple[MachineFile, int]] = []
        for file in files:
            assert isinstance(file, MachineFile), "every disk has its own kind of file"
            assert not file.has_late_data(), "recovery appends little"
            descriptors.append((file, file.opened()))
        # The next flush covers the folders once more, which costs little.
        self._flush_all(descriptors, set(self._changed_folders))

    def write_late(self, write: Callable[[], None]) -> None:
        """The thread writes it before anything else that it is asked for from now on."""
        self._ask(write)

    def _ask(self, work: Callable[[], None]) -> None:
        """Of the thread, at once and behind the flushes: during recovery the loop does not run."""
        self._asked.append(work)
        self._hand_over()

    def _hand_over(self) -> None:
        if self._asked:
            asked, self._asked = self._asked, []
            self._work.put(asked)

    def flushing_since(self) -> int:
        """When the oldest flush was asked for that was not answered yet, or -1. From any thread."""
        try:
            return self._asked_at[0]
        except IndexError:
            return -1

    def free_bytes(self) -> int:
        try:
            found = os.statvfs(self._folder)
        except OSError as error:
            raise why(str(self._folder), error) from error
        return found.f_bavail * found.f_frsize

    def close(self) -> None:
        """Ends the thread after its pending work; answers that are still pending are lost."""
        for file in list(self._files.values()):
            file.close()
        self._hand_over()
        self._work.put(None)
        self._thread.join()
        self._spare.close()

    def has_thread(self) -> bool:
        return self._thread.is_alive()

    # On the thread.

    def _run(self) -> None:
        while (asked := self._work.get()) is not None:
            for work in asked:
                try:
                    work()
                except Exception as error:
                    # The thread must continue: without it no flush would ever be answered.
                    self._tell(partial(self._failed, "closing a file", error))

    def _flush(
        self,
        descriptors: list[tuple[MachineFile, int]],
        folders: set[Path],
        is_first: bool,
        token: int,
        listener: FlushListener,
    ) -> None:
        reason = ""
        try:
            if is_first:
                folders = {Path(folder) for folder, _, _ in os.walk(self._folder)} | folders
            self._flush_all(descriptors, folders)
        except DiskError as error:
            reason = str(error)
        except Exception as error:
            # A flush counts as failed unless it was seen to succeed.
            reason = f"flushing failed: {error!r}"
        self._tell(partial(self._answer, token, reason, listener))

    def _tell(self, call: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            # The loop is closed: there is nothing left to notify.
            return

    def _flush_all(self, descriptors: list[tuple[MachineFile, int]], folders: set[Path]) -> None:
        for file, descriptor in descriptors:
            if file.late_failure:
                raise DiskError(file.late_failure)
            try:
                self.calls.flush_file(descriptor)
            except OSError as error:
                raise why(file.name, error) from error
        for folder in folders:
            try:
                self._flush_folder(folder)
            except OSError as error:
                raise why(str(folder), error) from error

    def _flush_folder(self, folder: Path) -> None:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # removed since, and its parent is flushed for that
        try:
            self.calls.flush_folder(descriptor)
        finally:
            os.close(descriptor)

    # On the loop again.

    def _answer(self, token: int, reason: str, listener: FlushListener) -> None:
        self._asked_at.popleft()
        try:
            if reason:
                listener.flush_failed(reason, self._clock.now())
            else:
                listener.flushed(token, self._clock.now())
        except Exception as error:
            self._failed("reporting a completed flush", error)
        if self.after_answer is not None:
            self.after_answer()

    def _failed(self, doing: str, error: Exception) -> None:
        if self.when_it_fails is None:
            raise error
        self.when_it_fails(doing, error)


def _raise(error: OSError) -> None:
    raise error
