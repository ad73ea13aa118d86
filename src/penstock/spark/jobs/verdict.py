"""The outcome of an audit: a line per queue, and the messages with a problem.

Broker and clients number messages differently: by position in the queue, and by publisher and
sequence. Where both have named their sessions a message is followed from one to the other, and one
that clients miss is lost unless the broker's ledger says that this message is still there, was
dropped, or was not durable. Other publishers are compared by counts: as many are explained as there
are such messages without a known publisher. Without the broker's ledger everything confirmed and
not received is lost. What a root of a cluster had committed and the next one has not inherited is
lost, whatever clients say.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from penstock.formats.ledger_records import REASONS
from penstock.formats.replication_id import COUNT_BITS
from penstock.spark.jobs import kinds as k
from penstock.spark.jobs.cluster_doubts import doubts
from penstock.spark.jobs.findings import NAMED, Finding
from penstock.spark.jobs.ledger_catalog import Catalog, KnownQueue, Role

if TYPE_CHECKING:
    from collections.abc import Iterable

PERCENTILES: Final = (50.0, 90.0, 99.0, 100.0)


@dataclass(frozen=True, slots=True)
class Example:
    """A row of the sweep: a total, or messages in question."""

    queue: int
    start: int
    finding: int
    is_total: bool
    first: int
    count: int
    time_ms: int
    # The publisher in the broker's ledger; -1 when it is not known.
    pair: int = -1
    sequence: int = -1


@dataclass(frozen=True, slots=True)
class Offence:
    """Messages with a problem, for people: ids from `first` on."""

    finding: str
    server: str
    vhost: str
    queue: str
    publisher: str
    start: int
    # Positions in the queue, or in a client's ledger sequences.
    first: int
    count: int
    time: str
    # Of positions in a queue: the sequence of the first, where its publisher is known; else -1.
    sequence: int = -1
    # In a cluster: the epoch of the root in whose ledger the messages are, and the next root, where
    # that does not have them.
    epoch: int = 0
    next_root: str = ""

    def __str__(self) -> str:
        ids = _numbers(self.first, self.count)
        if not self.server and self.publisher:
            return f"{self.queue}: publisher {self.publisher}, sequence {ids}"
        server = f"{self.server}: " if self.server else ""
        where = f"position {ids}, start {self.start}"
        if self.epoch:
            where = self._in_cluster()
        told = f"{server}{self.queue}: {where} {self.time}".rstrip()
        if self.publisher:
            sequences = _numbers(self.sequence, self.count)
            told += f", publisher {self.publisher}, sequence {sequences}"
        return told

    def _in_cluster(self) -> str:
        """A position consists of the epoch of the root that gave it and a count."""
        given = self.first >> COUNT_BITS
        ids = _numbers(self.first - (given << COUNT_BITS), self.count)
        told = f"position {ids} of epoch {given}, in the ledger of epoch {self.epoch}"
        return f"{told}, not at {self.next_root}," if self.next_root else told


def _numbers(first: int, count: int) -> str:
    return f"{first}" if count == 1 else f"{first}..{first + count - 1}"


@dataclass(slots=True)
class QueueVerdict:
    """One queue on one server or in one cluster, with the clients' records of it."""

    server: str
    vhost: str
    queue: str
    is_stream: bool = False
    has_broker: bool = False
    has_clients: bool = False
    # The broker's ledger.
    enqueued: int = 0
    delivered: int = 0
    acknowledged: int = 0
    requeued: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    leased: int = 0
    still_queued: int = 0
    unacknowledged: int = 0
    gone_with_process: int = 0
    missing_after_restart: int = 0
    came_back: int = 0
    redelivered_by_restart: int = 0
    not_judged: int = 0
    # In a cluster: not committed, and not at the next root; queued when a root ended after which
    # a ledger is missing.
    uncommitted_gone: int = 0
    unknown: int = 0
    # Clients' ledgers.
    published: int = 0
    confirmed: int = 0
    received: int = 0
    unconfirmed: int = 0
    refused: int = 0
    # Received from a queue that its publisher does not name: dead letters, for instance.
    received_by_detour: int = 0
    # Confirmed and not received: of publishers whose messages the broker knows as theirs, whether
    # or not it says where they are; and of others.
    missing_confirmed: int = 0
    lost_identified: int = 0
    lost_unidentified: int = 0
    explained_identified: int = 0
    # Confirmed, not received, and older than the broker's ledger, or in one that is missing: unknown.
    confirmed_not_judged: int = 0
    # Both.
    lost: int = 0
    duplicated_flagged: int = 0
    duplicated_unflagged: int = 0
    phantom: int = 0
    time_in_queue_ms: dict[str, int] = field(default_factory=dict)

    @property
    def duplicated(self) -> int:
        return self.duplicated_flagged + self.duplicated_unflagged


# Names for --fail-on.
FAILURES: Final = (
    "lost",
    "duplicated",
    "unflagged",
    "phantom",
    "unconfirmed",
    "missing",
)


@dataclass(slots=True)
class Audit:
    """What an audit returns."""

    verdicts: list[QueueVerdict]
    offences: list[Offence]
    # The number of events in the ledgers.
    events: int
    records: int
    blocks: int
    dirty_blocks: int
    restarts: dict[str, int]
    torn_files: list[str]
    truncated: list[str]
    # Of each cluster, its roots in their order: epoch and name.
    roots: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    # What cannot be known, because ledgers of a cluster are missing; sentences.
    doubts: list[str] = field(default_factory=list)

    def total(self, name: str) -> int:
        return sum(int(getattr(verdict, name)) for verdict in self.verdicts)

    def failures(self, wanted: Iterable[str]) -> dict[str, int]:
        """How many messages there are of each kind of failure."""
        columns = {
            "lost": "lost",
            "duplicated": "duplicated",
            "unflagged": "duplicated_unflagged",
            "phantom": "phantom",
            "unconfirmed": "unconfirmed",
            "missing": "missing_after_restart",
        }
        found = {name: self.total(columns[name]) for name in wanted}
        return {name: count for name, count in found.items() if count}


Counts = dict[tuple[int, int], tuple[int, ...]]


def conclude(
    catalog: Catalog,
    counts: Counts,
    found: list[Example],
    examples_max: int,
    blocks: int,
    dirty_blocks: int,
) -> Audit:
    verdicts: dict[tuple[str, str, str], QueueVerdict] = {}
    owners: list[tuple[KnownQueue, QueueVerdict]] = []
    # The clients' records of a queue belong to the first server that has it.
    servers: dict[tuple[str, str], str] = {}
    for role in (Role.QUEUE, Role.CLIENT):
        for queue in catalog.queues:
            if queue.role is role:
                server = servers.setdefault((queue.vhost, queue.queue), queue.server)
                is_client = role is Role.CLIENT
                key = (server if is_client else queue.server, queue.vhost, queue.queue)
                verdict = verdicts.setdefault(key, QueueVerdict(*key))
                owners.append((queue, verdict))
                _enter_counts(verdict, queue, counts, catalog)
    by_queue: dict[int, list[Example]] = defaultdict(list)
    for row in found:
        by_queue[row.queue].append(row)
    detours = _detours(catalog, counts)
    found = [
        row
        for row in found
        if not (row.finding == Finding.NEVER_PUBLISHED and row.queue in detours)
    ]
    times: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for queue, verdict in owners:
        for row in by_queue[queue.number]:
            if row.finding == Finding.NEVER_PUBLISHED and queue.number in detours:
                verdict.received_by_detour += row.count if row.is_total else 0
            elif row.finding != Finding.TIME_IN_QUEUE:
                if row.is_total:
                    _enter(verdict, Finding(row.finding), row.count, queue.is_identified)
            elif queue.role is Role.QUEUE or not verdict.has_broker:
                # The broker's measurement takes precedence over the clients'.
                times[id(verdict)][row.first] += row.count
    for verdict in verdicts.values():
        verdict.time_in_queue_ms = percentiles(times[id(verdict)])
        _settle(verdict, verdict.server in catalog.clusters)
    return Audit(
        verdicts=sorted(verdicts.values(), key=lambda v: (v.vhost, v.queue, v.server)),
        offences=_offences(catalog, found, examples_max),
        events=sum(sum(numbers) for numbers in counts.values())
        - sum(numbers[k.SURVIVED] + numbers[k.ARRIVED] for numbers in counts.values()),
        records=catalog.records,
        blocks=blocks,
        dirty_blocks=dirty_blocks,
        restarts=_restarts(catalog),
        torn_files=catalog.torn_files,
        truncated=sorted(catalog.truncated),
        roots=_roots(catalog),
        doubts=_doubts(catalog, list(verdicts.values())),
    )


def _restarts(catalog: Catalog) -> dict[str, int]:
    return {
        server: starts - 1
        for server, starts in catalog.start_counts.items()
        if server not in catalog.clusters
    }


def _roots(catalog: Catalog) -> dict[str, list[tuple[int, str]]]:
    return {
        label: [(term.epoch, term.server) for term in cluster.terms]
        for label, cluster in catalog.clusters.items()
    }


def _doubts(catalog: Catalog, verdicts: list[QueueVerdict]) -> list[str]:
    found: list[str] = []
    for label, cluster in catalog.clusters.items():
        known = [verdict for verdict in verdicts if verdict.server == label]
        queued = sum(verdict.still_queued + verdict.unacknowledged for verdict in known)
        found += doubts(cluster, sum(verdict.unknown for verdict in known), queued)
    return found


def _detours(catalog: Catalog, counts: Counts) -> set[int]:
    """Queues from which consumers received messages of a publisher that publishes to others only.
    They came there by way of the broker: through a dead-letter exchange, for instance.
    """
    published: dict[int, int] = defaultdict(int)
    for (number, _), numbers in counts.items():
        published[number] += numbers[k.PUBLISHED]
    clients = [queue for queue in catalog.queues if queue.role is Role.CLIENT]
    publishers = {queue.third for queue in clients if published[queue.number]}
    return {
        queue.number
        for queue in clients
        if not published[queue.number] and queue.third in publishers
    }


def _enter_counts(
    verdict: QueueVerdict, queue: KnownQueue, counts: Counts, catalog: Catalog
) -> None:
    verdict.is_stream = verdict.is_stream or queue.is_stream
    verdict.has_broker = verdict.has_broker or queue.role is Role.QUEUE
    verdict.has_clients = verdict.has_clients or queue.role is Role.CLIENT
    for start in range(max(catalog.start_counts.values(), default=1)):
        numbers = counts.get((queue.number, start))
        if numbers is None:
            continue
        verdict.enqueued += sum(numbers[kind] for kind in k.ENQUEUED)
        verdict.delivered += numbers[k.DELIVERED] + numbers[k.TAKEN]
        verdict.acknowledged += numbers[k.ACKNOWLEDGED]
        verdict.requeued += numbers[k.REQUEUED]
        for reason, kind in zip(REASONS, k.DROPPED, strict=True):
            if numbers[kind]:
                verdict.dropped[reason] = verdict.dropped.get(reason, 0) + numbers[kind]
        verdict.leased += numbers[k.LEASED]
        if verdict.is_stream and queue.role is Role.CLIENT:
            verdict.explained_identified += numbers[k.ARRIVED]
        verdict.published += numbers[k.PUBLISHED]
        verdict.confirmed += numbers[k.CONFIRMED]
        verdict.refused += numbers[k.REFUSED]
        verdict.received += numbers[k.RECEIVED] + numbers[k.RECEIVED_AGAIN]


_COLUMNS: Final = {
    Finding.READY: "still_queued",
    Finding.UNACKNOWLEDGED: "unacknowledged",
    Finding.MISSING_AFTER_RESTART: "missing_after_restart",
    Finding.GONE_WITH_PROCESS: "gone_with_process",
    Finding.CAME_BACK: "came_back",
    Finding.RETURNED_BY_RESTART: "redelivered_by_restart",
    Finding.SETTLED_TWICE: "duplicated_unflagged",
    Finding.ENTERED_TWICE: "duplicated_unflagged",
    Finding.PHANTOM: "phantom",
    Finding.EARLIER: "not_judged",
    Finding.ACCOUNTED_FOR: "missing_confirmed",
    Finding.EXPLAINED: "explained_identified",
    Finding.BEFORE_LEDGER: "confirmed_not_judged",
    Finding.UNCOMMITTED_GONE: "uncommitted_gone",
    Finding.UNKNOWN_AFTER: "unknown",
    Finding.UNCONFIRMED: "unconfirmed",
    Finding.NEVER_PUBLISHED: "phantom",
    Finding.REFUSED_YET_RECEIVED: "phantom",
    Finding.DUPLICATE_FLAGGED: "duplicated_flagged",
    Finding.DUPLICATE_UNFLAGGED: "duplicated_unflagged",
}
# The broker's record of redeliveries counts where there is no client's record of receiving.
_BROKER_DUPLICATES: Final = {
    Finding.REDELIVERED_FLAGGED: "duplicated_flagged",
    Finding.REDELIVERED_UNFLAGGED: "duplicated_unflagged",
}


def _enter(verdict: QueueVerdict, finding: Finding, count: int, is_identified: bool) -> None:
    if finding is Finding.LOST:
        verdict.missing_confirmed += count
        if is_identified:
            verdict.lost_identified += count
        else:
            verdict.lost_unidentified += count
        return
    name = _COLUMNS.get(finding)
    if name is None and not verdict.has_clients:
        name = _BROKER_DUPLICATES.get(finding)
    if name is not None:
        setattr(verdict, name, getattr(verdict, name) + count)


def _settle(verdict: QueueVerdict, of_cluster: bool) -> None:
    if not verdict.has_clients:
        verdict.lost = verdict.missing_after_restart
        return
    unclaimed = 0
    if verdict.has_broker:
        there = verdict.enqueued if verdict.is_stream else verdict.still_queued
        explained = (
            there
            + verdict.unacknowledged
            + verdict.gone_with_process
            + sum(verdict.dropped.values())
            + verdict.leased
            + verdict.unknown
        )
        unclaimed = max(0, explained - verdict.explained_identified)
    verdict.lost = verdict.lost_identified + max(0, verdict.lost_unidentified - unclaimed)
    if of_cluster:
        # It was committed, so that its publisher may have a confirm, whether or not he keeps a ledger.
        verdict.lost = max(verdict.lost, verdict.missing_after_restart)


def percentiles(histogram: dict[int, int]) -> dict[str, int]:
    """Of milliseconds by how many messages."""
    total = sum(histogram.values())
    found: dict[str, int] = {}
    for percent in PERCENTILES if total else ():
        seen = 0
        for value in sorted(histogram):
            seen += histogram[value]
            if seen * 100 >= percent * total:
                found["max" if percent == 100 else f"p{percent:g}"] = value
                break
    return found


def _merged(rows: list[Example]) -> list[Example]:
    """In order, and neighbouring messages as one row, as far as they are of one publisher."""
    merged: list[Example] = []
    for row in sorted(rows, key=lambda row: (row.finding, row.queue, row.start, row.first)):
        last = merged[-1] if merged else row
        sequence = last.sequence + last.count if last.pair >= 0 else -1
        goes_on = (last.finding, last.queue, last.start, last.first + last.count, last.pair)
        if (row.finding, row.queue, row.start, row.first, row.pair) == goes_on and (
            row.sequence == sequence
        ):
            merged[-1] = replace(last, count=last.count + row.count)
        else:
            merged.append(row)
    return merged


def _offences(catalog: Catalog, found: list[Example], examples_max: int) -> list[Offence]:
    offences: list[Offence] = []
    kept: dict[tuple[int, int], int] = defaultdict(int)
    named = [row for row in found if not row.is_total and row.finding in NAMED]
    for row in _merged(named):
        finding = Finding(row.finding)
        if kept[row.queue, finding] >= examples_max:
            continue
        kept[row.queue, finding] += 1
        queue = catalog.queues[row.queue]
        publisher = catalog.queues[row.pair].third if row.pair >= 0 else queue.third
        root, epoch, next_root = _roots_of(catalog, row)
        offences.append(
            Offence(
                finding=finding.name.lower(),
                server=root or queue.server,
                vhost=queue.vhost,
                queue=queue.queue,
                publisher=publisher,
                start=row.start,
                first=row.first,
                count=row.count,
                time=_shown(row.time_ms),
                sequence=row.sequence,
                epoch=epoch,
                next_root=next_root,
            )
        )
    return offences


def _roots_of(catalog: Catalog, row: Example) -> tuple[str, int, str]:
    """In a cluster: the root in whose ledger the messages are, its epoch, and the next root if it
    should have them.
    """
    cluster = catalog.clusters.get(catalog.queues[row.queue].server)
    if cluster is None:
        return "", 0, ""
    term = cluster.terms[row.start]
    if row.finding != Finding.MISSING_AFTER_RESTART:
        return term.server, term.epoch, ""
    following = cluster.terms[row.start + 1]
    return term.server, term.epoch, f"the next root {following.server} (epoch {following.epoch})"


def _shown(time_ms: int) -> str:
    if time_ms <= 0:
        return ""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
