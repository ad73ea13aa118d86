"""A survey of a ledger's file: its owner, its names, and whether it is intact.

A file that a broker is writing, or that a machine lost power on, ends in the middle of something:
that tail is left out. Any other inconsistency makes the file damaged, and it is reported.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.formats import ledger_records as form
from penstock.spark.errors import PipelineError
from penstock.spark.jobs.kinds import UNKNOWN, kind_table
from penstock.spark.jobs.ledger_terms import TermPart, find_parts

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

RECORD_TYPE: Final = np.dtype(list(form.RECORD_FIELDS))
KINDS: Final = np.array(kind_table(), dtype=np.uint8)
# The same by the two octets of event and detail, read as one number.
KINDS_OF_PAIRS: Final = KINDS.reshape(256, 8)[:, np.arange(256) & 7].T.reshape(-1).copy()
# Events that are not about messages.
_ASIDE: Final = (
    form.NAME,
    form.STARTED,
    form.REACHES,
    form.TAGGED,
    form.SEQUENCES,
    form.ROOT,
    form.COMMITTED,
)
# Events with which nothing new happens to a message.
_IN_HEAD: Final = (
    form.NAME,
    form.STARTED,
    form.RESTORED,
    form.REACHES,
    form.ROOT,
    form.COMMITTED,
)
_NO_ROUTE: Final = form.IS_PUBLISHER | form.IS_MEMBER
_ASIDE_TABLE: Final = np.isin(np.arange(256), _ASIDE)


class LedgerDamaged(PipelineError):
    """A file that is not a ledger, or a damaged one. Says which, where, and what to do."""


@dataclass(frozen=True, slots=True)
class Named:
    """A name record: its number in the file, where it stands and how many records it fills."""

    number: int
    at: int
    rows: int
    time: int
    flags: int
    vhost: str
    queue: str
    # Of a client's ledger the publisher; of a route in the broker's, its routing key; of a
    # publisher there, its serial number.
    third: str
    # Of a publisher in the broker's ledger, the high bits of its tags; of a queue of a cluster, the
    # queue's number.
    first: int
    is_route: bool
    # Before anything that happened: a queue that was there when the file was begun.
    is_in_head: bool

    @property
    def is_publisher(self) -> bool:
        return bool(self.flags & form.IS_PUBLISHER)

    @property
    def is_member(self) -> bool:
        return bool(self.flags & form.IS_MEMBER)

    @property
    def member(self) -> tuple[str, str, tuple[str, ...]]:
        """Of a member of a cluster: its cluster, its own name, and those of all members."""
        return self.vhost, self.queue, tuple(self.third.split(","))


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The facts of a file; made by a task, sent to the driver as JSON."""

    path: str
    is_client: bool
    # Of the STARTED record it begins with; -1 when it continues the file before.
    started_at: int
    # Records that are whole, the head among them.
    records: int
    torn_bytes: int
    names: tuple[Named, ...] = ()
    # Numbers of names that REACHES records speak of.
    reaches: tuple[int, ...] = ()
    # From TAGGED records: number of the session's name, tag, sequence.
    tags: tuple[tuple[int, int, int], ...] = ()
    damage: str = ""
    # The time of its first record, in milliseconds.
    begun_at: int = 0
    # Of a cluster: when its server was the root.
    terms: tuple[TermPart, ...] = ()

    @property
    def members(self) -> set[tuple[str, str]]:
        """Cluster and server whose ledger it is; one, or none."""
        return {named.member[:2] for named in self.names if named.is_member}

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> FileFacts:
        told = json.loads(text)
        told["names"] = tuple(Named(**named) for named in told["names"])
        told["reaches"] = tuple(told["reaches"])
        told["tags"] = tuple(tuple(tag) for tag in told["tags"])
        told["terms"] = tuple(TermPart.from_told(part) for part in told["terms"])
        return FileFacts(**told)


@dataclass(slots=True)
class _Walk:
    """Names found so far, and the records that their texts fill."""

    names: list[Named] = field(default_factory=list)
    # Where a name's text is cut off, or the number of records.
    end: int = 0


def map_records(path: Path | str, count: int) -> npt.NDArray[np.void]:
    return np.memmap(path, dtype=RECORD_TYPE, mode="r", shape=(count,))


def survey(path: Path) -> FileFacts:
    """Never raises because of the file's content: that is reported in `damage`."""
    size = path.stat().st_size
    with path.open("rb") as file:
        begin = file.read(form.RECORD_SIZE)
    if len(begin) < form.RECORD_SIZE and form.BROKER_MAGIC[: len(begin)] == begin[:8]:
        # The process was killed just when the file was begun.
        return FileFacts(str(path), False, -1, 0, len(begin))
    if begin[:8] not in {form.BROKER_MAGIC, form.CLIENT_MAGIC}:
        return _damaged(path, "it does not have the header of a ledger")
    if begin != form.head(begin[:8]):
        return _damaged(path, "it has a format version that this version of Penstock does not read")
    records = map_records(path, size // form.RECORD_SIZE)
    events = np.ascontiguousarray(records["event"])
    is_client = begin[:8] == form.CLIENT_MAGIC
    walk = _walk(records, events, is_client)
    end = _whole_end(records, events, walk)
    if end < 0:
        return _damaged(path, f"record {-end} has an unknown kind")
    told = np.unique(records["name"][1:end][_about_messages(events, walk, end)])
    known = {named.number for named in walk.names if not named.is_publisher}
    unknown = [number for number in told.tolist() if number not in known]
    if unknown:
        return _damaged(path, f"it refers to a queue {unknown[0]} that it does not define")
    started = end > 1 and events[1] == form.STARTED
    reaching = np.flatnonzero(events[:end] == form.REACHES)
    roots, marks = (
        np.flatnonzero(_without_texts(events == event, walk)[:end])
        for event in (form.ROOT, form.COMMITTED)
    )
    members = {named.number: named.member for named in walk.names if named.is_member}
    return FileFacts(
        path=str(path),
        is_client=is_client,
        started_at=int(records["time"][1]) if started else -1,
        records=end,
        torn_bytes=size - end * form.RECORD_SIZE,
        names=tuple(walk.names),
        reaches=tuple(records["name"][reaching].tolist()),
        tags=_tags(records, np.flatnonzero(events[:end] == form.TAGGED)) if is_client else (),
        begun_at=int(records["time"][1]) if end > 1 else 0,
        terms=find_parts(records, members, roots, marks, end),
    )


def _tags(
    records: npt.NDArray[np.void], at: npt.NDArray[np.int64]
) -> tuple[tuple[int, int, int], ...]:
    tagged = records[at]
    tags = tagged["count"].astype(np.int64) * (1 << 32) + tagged["sequence"]
    columns = (tagged["name"], tags, tagged["first"])
    return tuple(zip(*(column.tolist() for column in columns), strict=True))


def _damaged(path: Path, damage: str) -> FileFacts:
    return FileFacts(str(path), False, -1, 0, 0, damage=damage)


def _walk(records: npt.NDArray[np.void], events: npt.NDArray[np.uint8], is_client: bool) -> _Walk:
    """Follow the name records: the text of a name is not a record."""
    walk = _Walk(end=len(records))
    free = 1
    # The first record that tells of something new.
    happened = ~np.isin(events, _IN_HEAD)
    is_in_head = True
    for at in np.flatnonzero(events == form.NAME).tolist():
        if at < free:
            continue
        if is_in_head and happened[free:at].any():
            is_in_head = False
        length = int(records["count"][at])
        rows = 1 - (-length // form.RECORD_SIZE)
        if at + rows > len(records):
            walk.end = at
            break
        free = at + rows
        text = records[at + 1 : free].tobytes()[:length].decode(errors="surrogateescape")
        flags = int(records["detail"][at])
        parts = text.split("\0", 2)
        vhost, queue, third = (*parts, "", "")[:3]
        walk.names.append(
            Named(
                number=int(records["name"][at]),
                at=at,
                rows=rows,
                time=int(records["time"][at]),
                flags=flags,
                vhost=vhost,
                queue=queue,
                third=third,
                first=int(records["first"][at]),
                is_route=len(parts) == 3 and not is_client and not flags & _NO_ROUTE,
                is_in_head=is_in_head,
            )
        )
    return walk


def _without_texts(mask: npt.NDArray[np.bool_], walk: _Walk) -> npt.NDArray[np.bool_]:
    for named in walk.names:
        mask[named.at + 1 : named.at + named.rows] = False
    return mask


def _whole_end(records: npt.NDArray[np.void], events: npt.NDArray[np.uint8], walk: _Walk) -> int:
    """Where the whole records end; below 0, the record that is damaged."""
    details = np.minimum(records["detail"], 7).astype(np.int64)
    unknown = KINDS[events.astype(np.int64) * 8 + details] == UNKNOWN
    strange = _without_texts(unknown & ~_ASIDE_TABLE[events], walk)
    strange[0] = False
    strange[walk.end :] = False
    found = np.flatnonzero(strange)
    if not len(found):
        return walk.end
    first = int(found[0])
    # A file system may fill the end of a file that lost its data with zeros.
    return first if not records[first:].tobytes().strip(b"\0") else -first


def _about_messages(events: npt.NDArray[np.uint8], walk: _Walk, end: int) -> npt.NDArray[np.bool_]:
    mask = ~np.isin(events, _ASIDE)
    return _without_texts(mask, walk)[1:end]
