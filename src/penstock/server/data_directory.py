"""The data directory: its format and version, and the lock that lets only one server use it.

    lock     held by the server that runs on it, with its process id inside
    meta     format version, store id, when it was made; written once
    journal/ and whatever else is stored

Every refusal says what is wrong and what to do, and comes before anything is written.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from penstock.world.clock import Clock
from penstock.world.entropy import Entropy

# Of the whole directory; a journal's segments have a version of their own.
DIRECTORY_VERSION: Final = 1
STORE_ID_BYTES: Final = 16
LOCK_NAME: Final = "lock"
META_NAME: Final = "meta"
_NEW_META_NAME: Final = "meta.new"
# Files that may be in a directory that still counts as empty: those of a server that was killed
# while it created it, and those that a file system puts at its root.
NOBODYS_NAMES: Final = frozenset({LOCK_NAME, _NEW_META_NAME, "lost+found"})
_META_BYTES_MAX: Final = 64 << 10  # ours has about a hundred octets


class DataDirectoryError(Exception):
    """The parent of all below; the text is meant for the operator."""


class NotADirectory(DataDirectoryError):
    """The path is a file, or cannot be reached."""


class NotOurDirectory(DataDirectoryError):
    """The directory holds files but no `meta`."""


class OtherVersion(DataDirectoryError):
    """The directory was made by another version of Penstock."""


class MetaDamaged(DataDirectoryError):
    """`meta` cannot be read."""


class DirectoryLocked(DataDirectoryError):
    """Another server uses the directory."""


class DirectoryReadOnly(DataDirectoryError):
    """The directory is not writable."""


class DirectoryFull(DataDirectoryError):
    """The disk has no room for the first file."""


class DirectoryUnusable(DataDirectoryError):
    """The system refused for another reason."""


class DataDirectory:
    """An open, locked data directory. Held by the server until it stops."""

    def __init__(self, path: Path, store_id: bytes, lock_descriptor: int) -> None:
        self.path = path
        self.store_id = store_id
        self._lock_descriptor = lock_descriptor

    def close(self) -> None:
        """Release the directory for another server. The lock file stays: removing it would let two
        servers lock two files of that name.
        """
        os.close(self._lock_descriptor)


def open_data_directory(path: Path, clock: Clock, entropy: Entropy) -> DataDirectory:
    """Make it when it is missing, take its lock, and read or write its `meta`."""
    try:
        _make(path)
        _check_owner(path)
        _read_meta(path)
        lock = _lock(path, os.O_RDWR | os.O_CREAT)
        try:
            # The lock file is overwritten in place: a full disk may have no room for a new one.
            os.ftruncate(lock, os.pwrite(lock, f"{os.getpid()}\n".encode(), 0))
            # Checked again: another server may have taken the directory before this one had the
            # lock.
            _check_owner(path)
            store_id = _read_meta(path)
            if store_id is None:
                store_id = _write_meta(path, clock, entropy)
        except BaseException:
            os.close(lock)
            raise
    except OSError as error:
        raise _explained(path, error) from error
    return DataDirectory(path, store_id, lock)


def open_to_read(path: Path) -> DataDirectory:
    """Lock an existing data directory against servers without writing anything to it."""
    try:
        if not path.is_dir():
            raise NotADirectory(f"{path} is not a directory. Name the data directory of a server")
        store_id = _read_meta(path)
        if store_id is None:
            raise NotOurDirectory(f"{path} is not a Penstock data directory: it has no `meta` file")
        try:
            lock = _lock(path, os.O_RDONLY)
        except FileNotFoundError:
            # A copy without its lock file: no server uses it. Any descriptor will do.
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _explained(path, error) from error
    return DataDirectory(path, store_id, lock)


def _make(path: Path) -> None:
    if path.is_dir():
        return
    if path.exists() or path.is_symlink():
        raise NotADirectory(
            f"{path} exists and is not a directory. Remove it or name another directory"
        )
    path.mkdir(mode=0o700, parents=True)


def _check_owner(path: Path) -> None:
    names = {file.name for file in path.iterdir()}
    if META_NAME not in names and not names <= NOBODYS_NAMES:
        raise NotOurDirectory(
            f"{path} is not empty and is not a Penstock data directory: it has no `meta` file. "
            "Nothing was changed; name an empty or a new directory"
        )


def _lock(path: Path, flags: int) -> int:
    lock = os.open(path / LOCK_NAME, flags | os.O_CLOEXEC, 0o600)
    try:
        # Readers share the lock, a server holds it exclusively.
        kind = fcntl.LOCK_EX if flags & os.O_CREAT else fcntl.LOCK_SH
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(lock, 20, 0).decode(errors="replace").strip() or "unknown"
        os.close(lock)
        raise DirectoryLocked(
            f"{path} is in use by process {holder}. "
            "Stop that server first or name another directory"
        ) from error
    except BaseException:
        os.close(lock)
        raise
    return lock


def _read_meta(path: Path) -> bytes | None:
    try:
        with (path / META_NAME).open("rb") as file:
            text = file.read(_META_BYTES_MAX)
    except FileNotFoundError:
        return None
    try:
        meta = json.loads(text)
        version = meta["version"]
        store_id = bytes.fromhex(meta["store_id"]) if version == DIRECTORY_VERSION else b""
    except (ValueError, KeyError, TypeError) as error:
        raise MetaDamaged(
            f"{path / META_NAME} is damaged: {error!r}. Nothing was changed; restore it from a "
            "backup, or use another directory"
        ) from error
    if version != DIRECTORY_VERSION:
        raise OtherVersion(
            f"{path} has format version {version}, but this version of Penstock reads only format "
            f"version {DIRECTORY_VERSION}. Nothing was changed; use the version of Penstock that "
            "created it"
        )
    if len(store_id) != STORE_ID_BYTES:
        raise MetaDamaged(
            f"{path / META_NAME} is damaged: its store_id has {len(store_id)} bytes. Nothing was "
            "changed; restore it from a backup, or use another directory"
        )
    return store_id


def _write_meta(path: Path, clock: Clock, entropy: Entropy) -> bytes:
    """Write it under another name first, so that it is complete or missing."""
    # This comes before `meta` exists, so that a start after a crash does it again.
    _flush_parents(path)
    store_id = entropy.octets(STORE_ID_BYTES)
    created = datetime.fromtimestamp(clock.wall() / 1000, UTC).isoformat(timespec="seconds")
    meta = {"version": DIRECTORY_VERSION, "store_id": store_id.hex(), "created": created}
    new = path / _NEW_META_NAME
    try:
        with new.open("w", encoding="utf-8") as file:
            file.write(json.dumps(meta, indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())
        new.rename(path / META_NAME)
    except OSError:
        with suppress(OSError):
            new.unlink()
        raise
    flush_folder(path)
    return store_id


def _flush_parents(path: Path) -> None:
    """Several of them may be new, made just now or by a server that was killed since. A folder that
    cannot be opened or flushed was not made by Penstock.
    """
    for folder in path.absolute().parents:
        try:
            flush_folder(folder)
        except OSError as error:
            if error.errno not in {errno.EACCES, errno.EPERM, errno.EINVAL, errno.EROFS}:
                raise


def flush_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _explained(path: Path, error: OSError) -> DataDirectoryError:
    if error.errno in {errno.EROFS, errno.EACCES, errno.EPERM}:
        return DirectoryReadOnly(
            f"{path} is not writable: {error.strerror}. Grant this user write permission, or name "
            "another directory"
        )
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return DirectoryFull(
            f"{path} cannot be written: {error.strerror}. Free some space or name another directory"
        )
    if error.errno in {errno.ENOTDIR, errno.EEXIST}:
        return NotADirectory(
            f"{path} cannot be used as a directory: {error.strerror}. Name another directory"
        )
    return DirectoryUnusable(f"{path} cannot be used: {error.strerror or error}")
