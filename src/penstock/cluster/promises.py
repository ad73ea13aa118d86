"""What a server has promised and must not forget: epoch, vote, the highest record it accepted, and
the store ids of members of which the record has none.

`penstock cluster format` makes them with `format_promises` and the `bootstrap_record`, whose id is
`cluster_id_of_key`; a start reads them with `open_promises`.

Invariants
- a message that depends on a promise leaves only when `durable_version` has reached the version that
  `change` returned;
- one flush is in progress at a time; changes that come meanwhile are covered by the next one;
- epochs and records never go back;
- a new file is begun when the present one is long; the old one is removed once the new one is
  durable, and changes go to the new one alone;
- after a failure of the disk nothing becomes durable any more, and the owner stops.
"""

from abc import ABC, abstractmethod
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.cluster.errors import PromisesDamaged
from penstock.cluster.member import STORE_ID_BYTES
from penstock.cluster.promise_file import (
    ReadPromises,
    encode_head,
    encode_note,
    encode_promise,
    file_name,
    generations,
)
from penstock.cluster.record import ClusterRecord
from penstock.world.disk import AppendFile, Disk, DiskError, FlushListener

# A few hundred changes; reading it at a start takes no time. Then a new file is begun.
FILE_BYTES_MAX: Final = 64 * 1024


@mypyc_attr(allow_interpreted_subclasses=True)
class PromisesListener(ABC):
    """Whoever sends the messages that depend on promises."""

    @abstractmethod
    def promised(self, now: int) -> None:
        """`durable_version` has grown. May be called inside `change`."""

    @abstractmethod
    def promise_failed(self, reason: str, now: int) -> None:
        """The disk cannot be trusted any more: stop."""


class Promises(FlushListener):
    """Held by the election, and by the disk while a flush is on its way."""

    def __init__(self, disk: Disk, generation: int, file: AppendFile, read: ReadPromises) -> None:
        """See `open_promises`; everything that was read is durable."""
        assert read.record is not None, "a file begins with a promise"
        self.store_id: bytes = read.store_id
        self.epoch: int = read.epoch
        self.voted_for: str = read.voted_for
        self.record: ClusterRecord = read.record
        # With which store ids members were first heard of which the record has none.
        self.stores: dict[str, bytes] = read.stores
        self.version: int = 0
        self.durable_version: int = 0
        self.durable_record: ClusterRecord = read.record
        # When the flush in progress was asked for; -1 without one.
        self.flushing_since: int = -1
        self.failure: str = ""
        self.listener: PromisesListener | None = None
        self._disk: Disk = disk
        self._generation: int = generation
        self._file: AppendFile = file
        self._durable_bytes: int = read.end
        # What the flush in progress covers.
        self._flushing_record: ClusterRecord = read.record
        self._flushing_bytes: int = 0
        self._flushing_generation: int = generation
        # The file before this one, until this one is durable.
        self._stale: int = 0

    def change(self, epoch: int, voted_for: str, record: ClusterRecord, now: int) -> int:
        """Write a promise and ask for its flush; returns the version that must become durable."""
        assert epoch >= self.epoch, "epochs never go back"
        assert not self.record.is_newer_than(record), "records never go back"
        assert record.epoch <= epoch, "a record belongs to an epoch that was promised"
        self.epoch = epoch
        self.voted_for = voted_for
        self.record = record
        # Of all others the record says it from now on, or they are not members any more.
        unknown = [member.name for member in record.members if not member.store_id]
        self.stores = {n: store_id for n, store_id in self.stores.items() if n in unknown}
        self.version += 1
        if self.failure:
            return self.version
        try:
            self._write()
            if self.flushing_since < 0:
                self._flush(now)
        except DiskError as error:
            self._fail(str(error), now)
        return self.version

    def heard(self, name: str, store_id: bytes, now: int) -> None:
        """Remember with which store a member was heard first, while the record does not say."""
        member = self.record.find(name)
        if member is not None and not member.store_id and name not in self.stores:
            self.stores[name] = store_id
            self.change(self.epoch, self.voted_for, self.record, now)

    def counts(self, record: ClusterRecord, name: str, store_id: bytes) -> bool:
        """Whether votes and answers of a server count under a record: it is a member, and its
        store is the one of that member.
        """
        member = record.find(name)
        if member is None or not store_id:
            return False
        known = member.store_id or self.stores.get(name, b"")
        return not known or known == store_id

    def is_durable(self, version: int) -> bool:
        return self.durable_version >= version

    # Calls from the disk.

    def flushed(self, token: int, now: int) -> None:
        assert self.flushing_since >= 0, "a flush is answered once"
        self.flushing_since = -1
        self.durable_version = token
        self.durable_record = self._flushing_record
        if self._flushing_generation == self._generation:
            self._durable_bytes = self._flushing_bytes
        try:
            self._remove_stale()
            if self.version > token:
                self._flush(now)
            else:
                # Nothing waits for the note, so nothing is flushed for it.
                self._file.append(encode_note(self._file.size(), self._durable_bytes))
        except DiskError as error:
            self._fail(str(error), now)
            return
        if self.listener is not None:
            self.listener.promised(now)

    def flush_failed(self, reason: str, now: int) -> None:
        self._fail(reason, now)

    def _fail(self, reason: str, now: int) -> None:
        self.failure = reason
        if self.listener is not None:
            self.listener.promise_failed(reason, now)

    def _write(self) -> None:
        if self._file.size() > FILE_BYTES_MAX and not self._stale:
            self._stale = self._generation
            self._generation += 1
            self._file = self._disk.open(file_name(self._generation))
            self._file.append(encode_head(self.store_id))
            self._durable_bytes = 0
        offset = self._file.size()
        self._file.append(
            encode_promise(
                self.epoch,
                self.voted_for,
                self.stores,
                self.record,
                offset,
                self._durable_bytes,
            )
        )

    def _flush(self, now: int) -> None:
        self.flushing_since = now
        self._flushing_record = self.record
        self._flushing_bytes = self._file.size()
        self._flushing_generation = self._generation
        self._disk.flush([self._file], self.version, self)

    def _remove_stale(self) -> None:
        if self._stale and self._flushing_generation == self._generation:
            self._disk.remove(file_name(self._stale))
            self._stale = 0


def format_promises(disk: Disk, store_id: bytes, record: ClusterRecord) -> None:
    """Make the promises of a new server, and wait until they are durable. The epoch of the record is
    promised, too.
    """
    assert len(store_id) == STORE_ID_BYTES
    assert not generations(disk), "promises are made once"
    file = disk.open(file_name(1))
    head = encode_head(store_id)
    file.append(head + encode_promise(record.epoch, "", {}, record, len(head), 0))
    disk.flush_now([file])
    file.append(encode_note(file.size(), file.size()))
    disk.flush_now([file])
    file.close()


def has_promises(disk: Disk) -> bool:
    """Whether this is the data directory of a member of a cluster."""
    return len(generations(disk)) > 0


def open_promises(disk: Disk) -> Promises:
    """Read the promises at a start and cut a torn tail off. Raises `StorageError`."""
    found = generations(disk)
    assert found, "see has_promises"
    for generation in reversed(found):
        name = file_name(generation)
        file = disk.open(name)
        read = ReadPromises(name, file.read(0, file.size()))
        if read.record is None:
            # The file was begun and never durable: the one before it is complete.
            file.close()
            continue
        file.truncate(read.end)
        # What was read now must survive the next crash too: it may be shown to others.
        disk.flush_now([file])
        file.append(encode_note(read.end, read.end))
        for other in found:
            if other != generation:
                disk.remove(file_name(other))
        return Promises(disk, generation, file, read)
    raise PromisesDamaged(file_name(found[-1]), 0, "it does not begin with a whole promise")
