"""What `penstock store` finds of a cluster in a data directory, and how a salvaged copy goes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.broker.store import records
from penstock.cluster.promise_file import ReadPromises, file_name, generations
from penstock.server.cluster_directory import (
    FOLDER,
    KEY_NAME,
    MEMBER_NAME,
    MemberFiles,
    NotFormatted,
    read_member,
)
from penstock.storage.errors import StorageError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.server.world.disk import MachineDisk
    from penstock.server.world.entropy import MachineEntropy

# What a salvaged copy is called, and where it listens, if its files do not say.
DEFAULT_NAME: Final = "salvaged"
DEFAULT_ADDRESS: Final = "127.0.0.1:5672"
KEY_OCTETS: Final = 32
# Record kinds whose content begins with an epoch.
_WITH_EPOCH: Final = (records.OPERATION, records.SYNC_DONE, records.ROOT, records.POSITION)


@dataclass(slots=True)
class MemberSurvey:
    """The files of one member. Held by a check or a salvage."""

    # None if they cannot be read.
    files: MemberFiles | None = None
    promises: ReadPromises | None = None
    damage: list[str] = field(default_factory=list)

    @property
    def epoch(self) -> int:
        return 0 if self.promises is None else self.promises.epoch

    def lines(self) -> list[str]:
        found: list[str] = []
        if self.files is not None:
            found.append(f"{FOLDER}/{MEMBER_NAME}: {self.files.name!r} at {self.files.address}")
        read = self.promises
        if read is not None and read.record is not None:
            members = ", ".join(read.record.names())
            vote = f"voted for {read.voted_for!r}" if read.voted_for else "has not voted"
            found.append(
                f"{FOLDER}/promises: epoch {read.epoch}, {vote}; members {members}; "
                f"{read.record.text()}"
            )
        return [*found, *(f"damaged: {text}" for text in self.damage)]


def surveyed_member(path: Path, disk: MachineDisk) -> MemberSurvey | None:
    """None for the directory of a server without a cluster."""
    if not (path / FOLDER).is_dir():
        return None
    survey = MemberSurvey()
    try:
        survey.files = read_member(path)
    except NotFormatted as error:
        survey.damage.append(str(error))
    try:
        survey.promises = _newest_promises(disk)
    except StorageError as error:
        survey.damage.append(str(error))
    else:
        if survey.promises is None:
            survey.damage.append(
                f"{FOLDER}/promises-*: no file holds a whole promise. A member that has forgotten "
                "its votes must not start: let the cluster replace it"
            )
    return survey


def _newest_promises(disk: MachineDisk) -> ReadPromises | None:
    for generation in reversed(generations(disk)):
        name = file_name(generation)
        file = disk.open(name)
        try:
            read = ReadPromises(name, file.read(0, file.size()))
        finally:
            file.close()
        # One without a promise was begun and never durable: the one before it is complete.
        if read.record is not None:
            return read
    return None


def files_to_go_on(survey: MemberSurvey, entropy: MachineEntropy) -> MemberFiles:
    """Name, address and key of a salvaged copy, as far as they could be read."""
    if survey.files is not None:
        return survey.files
    return MemberFiles(DEFAULT_NAME, DEFAULT_ADDRESS, entropy.octets(KEY_OCTETS).hex().encode())


def what_it_is(files: MemberFiles) -> str:
    return (
        f"{files.name!r} at {files.address} is the only member of a cluster of its own now, with "
        "another id, and cannot join the old one: start it to read or move its messages, or add "
        f"members. Its key is in {FOLDER}/{KEY_NAME}. If the old cluster has a root, let that "
        "replace the member instead: penstock cluster replace"
    )


def highest_epoch(payload: bytes) -> int:
    """Of what a batch says of operations and roots."""
    found = at = 0
    while at < len(payload):
        if payload[at] in _WITH_EPOCH:
            found = max(found, records.root_epoch(payload, at))
        at += records.size_at(payload, at)
    return found
