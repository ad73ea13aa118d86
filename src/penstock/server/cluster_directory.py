"""The data directory of a cluster member: what `penstock cluster format` writes, and `serve` reads.

cluster/key         the cluster's key, readable by its owner only
cluster/promises.N  epoch, vote and record; see `cluster.promises`
cluster/member      the server's own name and address; written last, so that a directory without
                    it was not formatted to the end
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.cluster.member import Member, check_name, parse_address
from penstock.cluster.promises import format_promises
from penstock.cluster.record import (
    CLUSTER_ID_BYTES,
    MEMBERS_MAX,
    ClusterRecord,
    bootstrap_record,
    cluster_id_of_key,
)
from penstock.server.data_directory import (
    META_NAME,
    NOBODYS_NAMES,
    DataDirectory,
    DataDirectoryError,
    NotADirectory,
    flush_folder,
    open_data_directory,
)
from penstock.server.world.disk import MachineDisk

if TYPE_CHECKING:
    import asyncio

    from penstock.server.world.clock import MachineClock
    from penstock.server.world.entropy import MachineEntropy

FOLDER: Final = "cluster"
KEY_NAME: Final = "key"
MEMBER_NAME: Final = "member"
# Of the file `cluster/member`.
MEMBER_VERSION: Final = 1
# Of which a majority is left without one.
SURVIVING_MEMBERS_MIN: Final = 3
# A key is what keeps strangers out, so it must not be guessed: 16 random octets cannot be. A shorter
# file is refused.
KEY_BYTES_MIN: Final = 16
# Far more than anybody needs; a longer file is not a key but a mistake, and is refused.
KEY_BYTES_MAX: Final = 4096
# Ours has about a hundred octets; what is longer is not read.
_MEMBER_BYTES_MAX: Final = 64 << 10
# Files of a directory in which an earlier `format` was interrupted.
_BEGUN_NAMES: Final = NOBODYS_NAMES | {META_NAME, FOLDER}


class NotFormatted(DataDirectoryError):
    """A member's data directory cannot be made or used; the text is meant for the operator."""


class KeyRefused(Exception):
    """The file with the cluster's key cannot be used; the text says why."""


class MembersRefused(Exception):
    """The members of a new cluster are not valid; the text says why."""


@dataclass(frozen=True, slots=True)
class MemberFiles:
    """What the directory says of its server. Held while it starts."""

    name: str
    address: str
    key: bytes


def parse_members(words: list[str], own_name: str) -> list[Member]:
    """Members in their order, each NAME=ADDRESS. Raises `MembersRefused`."""
    members: list[Member] = []
    for word in words:
        name, separator, address = word.partition("=")
        if not separator:
            raise MembersRefused(
                f"{word!r} is not a valid member: it must be NAME=HOST:PORT, for example "
                "a=127.0.0.1:5672"
            )
        reason = check_name(name)
        if reason:
            raise MembersRefused(reason)
        try:
            parse_address(address)
        except ValueError as error:
            raise MembersRefused(str(error)) from error
        members.append(Member(name, address))
    _check_members(members, own_name)
    return members


def _check_members(members: list[Member], own_name: str) -> None:
    if not members:
        raise MembersRefused("a cluster needs at least one member: --member NAME=HOST:PORT")
    if len(members) > MEMBERS_MAX:
        raise MembersRefused(f"a cluster has at most {MEMBERS_MAX} members, not {len(members)}")
    places: dict[tuple[str, int], str] = {}
    for member in members:
        if member.name in places.values():
            raise MembersRefused(f"two members are named {member.name!r}")
        parsed = parse_address(member.address)
        place = (parsed.host.lower(), parsed.port)
        if place in places:
            raise MembersRefused(
                f"the members {places[place]!r} and {member.name!r} have the same address "
                f"{member.address}"
            )
        places[place] = member.name
    names = [member.name for member in members]
    if own_name not in names:
        raise MembersRefused(
            f"{own_name!r} is not among the members {', '.join(names)}: add it with --member "
            f"{own_name}=HOST:PORT, or correct --name"
        )


def warn_of_few(members: list[Member]) -> str:
    """Empty if the cluster survives the loss of a server."""
    if len(members) >= SURVIVING_MEMBERS_MIN:
        return ""
    return (
        f"a cluster of fewer than {SURVIVING_MEMBERS_MIN} members stops when one of them is lost; "
        f"name {SURVIVING_MEMBERS_MIN} or more"
    )


def parse_cluster_id(text: str) -> bytes:
    """Empty for none. Raises `MembersRefused`."""
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b"?"
    if found and len(found) != CLUSTER_ID_BYTES:
        raise MembersRefused(
            f"{text!r} is not a valid cluster id: it has {2 * CLUSTER_ID_BYTES} hexadecimal digits"
        )
    return found


def read_key(path: Path) -> tuple[bytes, str]:
    """The key, without the white space at its end, and a warning that may be empty. Raises
    `KeyRefused`.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            key = file.read(KEY_BYTES_MAX + 1).rstrip(b"\r\n")
    except OSError as error:
        raise KeyRefused(f"cannot read the key file {path}: {error.strerror}") from error
    if len(key) < KEY_BYTES_MIN:
        raise KeyRefused(
            f"the key in {path} has {len(key)} bytes, and the least is {KEY_BYTES_MIN}. Make one "
            "with: openssl rand -hex 32"
        )
    if len(key) > KEY_BYTES_MAX:
        raise KeyRefused(f"{path} is longer than a key may be ({KEY_BYTES_MAX} bytes)")
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        return key, (
            f"other users of this machine can read {path}: whoever has the key can join the "
            f"cluster. Run: chmod 600 {path}"
        )
    return key, ""


def check_empty(path: Path) -> None:
    """Raises `NotFormatted` for a directory that holds anything of a server."""
    if not path.exists() and not path.is_symlink():
        return
    if not path.is_dir():
        raise NotADirectory(
            f"{path} exists and is not a directory. Remove it or name another directory"
        )
    try:
        names = {file.name for file in path.iterdir()}
        is_member = (path / FOLDER / MEMBER_NAME).exists()
    except OSError as error:
        raise NotFormatted(f"{path} cannot be read: {error.strerror}") from error
    if is_member:
        raise NotFormatted(
            f"{path} is the data directory of a cluster member already. Nothing was changed; name "
            "an empty or a new directory"
        )
    if not names <= _BEGUN_NAMES or (META_NAME in names and FOLDER not in names):
        raise NotFormatted(
            f"{path} is not empty. Nothing was changed; name an empty or a new directory"
        )


def format_directory(
    path: Path,
    name: str,
    members: list[Member],
    key: bytes,
    clock: MachineClock,
    entropy: MachineEntropy,
    loop: asyncio.AbstractEventLoop,
    cluster_id: bytes = b"",
) -> None:
    """Make the data directory of a new member; without an id, that of the key. Raises
    `DataDirectoryError` or `DiskError`.
    """
    check_empty(path)
    directory = open_data_directory(path, clock, entropy)
    try:
        disk = MachineDisk(path, clock, loop)
        try:
            own = next(member for member in members if member.name == name)
            record = bootstrap_record(cluster_id or cluster_id_of_key(key), members)
            files = MemberFiles(name, own.address, key)
            _write_member(path, files, record, directory.store_id, disk)
        finally:
            disk.close()
    finally:
        directory.close()


def make_alone(
    directory: DataDirectory, files: MemberFiles, epoch: int, cluster_id: bytes, disk: MachineDisk
) -> None:
    """Make a directory without a cluster that of the only member of a new one, which has an id of
    its own, so that the servers of the old one refuse it. `epoch` is the highest that it knows.
    Raises `DataDirectoryError` or `DiskError`.
    """
    own = Member(files.name, files.address, directory.store_id)
    record = ClusterRecord(epoch + 1, 1, cluster_id, (own,), (own.name,))
    _write_member(directory.path, files, record, directory.store_id, disk)


def _write_member(
    path: Path, files: MemberFiles, record: ClusterRecord, store_id: bytes, disk: MachineDisk
) -> None:
    """The file that names the member comes last: with it the directory is formatted."""
    folder = path / FOLDER
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        for file in folder.iterdir():
            # Of a `format` that was interrupted.
            file.unlink()
        _write(folder / KEY_NAME, files.key)
    except OSError as error:
        raise NotFormatted(f"{folder} cannot be written: {error.strerror}") from error
    format_promises(disk, store_id, record)
    said = {"version": MEMBER_VERSION, "name": files.name, "address": files.address}
    try:
        _write(folder / MEMBER_NAME, (json.dumps(said) + "\n").encode())
        flush_folder(path)
    except OSError as error:
        raise NotFormatted(f"{folder} cannot be written: {error.strerror}") from error


def read_member(path: Path | None) -> MemberFiles | None:
    """What `format_directory` wrote; None for a directory without a cluster. Raises
    `NotFormatted`.
    """
    if path is None or not (path / FOLDER).is_dir():
        return None
    folder = path / FOLDER
    try:
        with (folder / MEMBER_NAME).open("rb") as file:
            said = json.loads(file.read(_MEMBER_BYTES_MAX))
        if said["version"] != MEMBER_VERSION:
            raise NotFormatted(
                f"{folder / MEMBER_NAME} has version {said['version']}, but this version of "
                f"Penstock reads only version {MEMBER_VERSION}"
            )
        name, address = str(said["name"]), str(said["address"])
        parse_address(address)
        key = (folder / KEY_NAME).read_bytes()
    except FileNotFoundError as error:
        raise NotFormatted(
            f"{path} was not formatted to the end: {error.filename} is missing. Run penstock "
            "cluster format again"
        ) from error
    except OSError as error:
        raise NotFormatted(f"{error.filename} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise NotFormatted(f"{folder / MEMBER_NAME} is damaged: {error!r}") from error
    if len(key) < KEY_BYTES_MIN:
        raise NotFormatted(f"{folder / KEY_NAME} is damaged: it has {len(key)} bytes")
    return MemberFiles(name, address, key)


def _write(path: Path, octets: bytes) -> None:
    """Complete or missing, and durable."""
    new = path.with_name(path.name + ".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        os.write(descriptor, octets)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    new.rename(path)
    flush_folder(path.parent)
