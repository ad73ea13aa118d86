"""The catalog of all ledgers of an audit: which queue a number in a file means, and which start.

A queue is known by its server, its name and its *life*: deleted and declared again, it begins
another one, with positions from the beginning. A *start* is one run of the broker's process;
within one, a position of a queue's life is never used twice.

Of a cluster the ledgers of all servers are one: its queues belong to the cluster, and its starts
are the terms of its roots. A replicated queue has a number, which is the same at every server.

A limitation: a queue that was deleted and declared again just when its broker began another file is
taken for the old one.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.formats import ledger_records as form
from penstock.spark.errors import PipelineError
from penstock.spark.jobs.ledger_origins import FileOrigins
from penstock.spark.jobs.ledger_sessions import Sessions
from penstock.spark.jobs.ledger_survey import FileFacts, LedgerDamaged, Named
from penstock.spark.jobs.ledger_terms import KnownCluster, TermPart, find_clusters

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Where a broker keeps its ledger within its data directory.
FOLDER: Final = "ledger"
# How the names of internal queues begin; the broker refuses them to clients.
INTERNAL_PREFIXES: Final = ("amq.lease.", "amq.stage.")
# Stands for the number of no record.
NEVER: Final = 1 << 62
# What one task reads: half a second of work.
SLICE_RECORDS: Final = 1 << 20


class NoLedger(PipelineError):
    """A given path holds no ledger."""


@dataclass(frozen=True, slots=True)
class Place:
    """A given directory, and its files."""

    server: str
    paths: tuple[str, ...]


class Role(Enum):
    """What a name in a ledger stands for."""

    QUEUE = auto()
    CLIENT = auto()
    ROUTE = auto()
    # A queue that the broker makes for itself, for a lease or for rows staged by a Spark query. It
    # is not part of any report: its messages are reported with the queues they come from or go to.
    INTERNAL = auto()


@dataclass(slots=True)
class KnownQueue:
    """One life of a queue; of a client's ledger, what one publisher sent to one queue; of routes,
    an exchange and a routing key.
    """

    number: int
    # Or the label of its cluster.
    server: str
    vhost: str
    queue: str
    # The publisher or the routing key.
    third: str = ""
    role: Role = Role.QUEUE
    life: int = 0
    flags: int = 0
    # Starts of its broker in which it was there, found at the beginning or declared.
    starts: set[int] = field(default_factory=set)
    # Starts that it survived: it was there when the next one began.
    survived: set[int] = field(default_factory=set)
    # In a cluster: the next root has every message of it that was committed.
    is_replicated: bool = False
    # Of a client: the broker's ledger says which messages are its.
    is_identified: bool = False

    @property
    def is_stream(self) -> bool:
        return bool(self.flags & form.IS_STREAM)


@dataclass(frozen=True, slots=True)
class FileSlice:
    """What one task reads. Sent to executors."""

    server: str
    path: str
    start: int
    begin: int
    end: int
    # Queues by the number of the name in the file: `owners[offsets[n]:offsets[n + 1]]`.
    offsets: tuple[int, ...]
    owners: tuple[int, ...]
    # Records that are texts of names, as pairs of begin and end.
    texts: tuple[tuple[int, int], ...]
    # How many records the whole file has.
    records: int
    # The publishers of messages, as far as clients' ledgers were given; None without any.
    origins: FileOrigins | None = None
    # The first record about messages that were not committed when their root's term ended.
    uncommitted_from: int = NEVER


@dataclass(slots=True)
class Catalog:
    """Held by the driver."""

    queues: list[KnownQueue] = field(default_factory=list)
    slices: list[FileSlice] = field(default_factory=list)
    # By server or cluster: how many starts are known; the last one may still run.
    start_counts: dict[str, int] = field(default_factory=dict)
    # Servers whose oldest files are gone, so that the first start's begin is not known; with the
    # time in milliseconds at which their oldest remaining file begins.
    truncated: dict[str, int] = field(default_factory=dict)
    records: int = 0
    torn_files: list[str] = field(default_factory=list)
    # By label.
    clusters: dict[str, KnownCluster] = field(default_factory=dict)

    @property
    def has_origins(self) -> bool:
        return any(known.origins is not None for known in self.slices)


def find_places(paths: Sequence[str | Path]) -> list[Place]:
    """Data directories, folders of ledgers, or single files; raises `NoLedger`."""
    places: list[Place] = []
    used: set[str] = set()
    for given in paths:
        path = Path(given)
        inner = path / FOLDER
        folder = inner if inner.is_dir() else path
        files = [folder] if folder.is_file() else sorted(folder.glob(f"*{form.SUFFIX}"))
        if not files:
            raise NoLedger(
                f"{path} contains no ledger. Name the data directory of a server that was started "
                "with --ledger, or the directory that `penstock load --ledger` wrote to."
            )
        name = path.resolve().stem if folder.is_file() else path.resolve().name
        server = name
        while server in used:
            server = f"{name}-{len(used) + 1}"
        used.add(server)
        places.append(Place(server, tuple(str(file) for file in files)))
    return places


def build_catalog(places: Iterable[Place], facts: dict[str, FileFacts]) -> Catalog:
    """Raises `LedgerDamaged`, which names every file that is."""
    damaged = [known for known in facts.values() if known.damage]
    if damaged:
        told = "\n".join(f"  {known.path}: {known.damage}" for known in damaged)
        raise LedgerDamaged(
            f"These files cannot be read as ledgers:\n{told}\n"
            "Remove them, or name only directories with intact ledgers."
        )
    places = list(places)
    files = [facts[path] for place in places for path in place.paths]
    clusters = find_clusters(
        [member for known in files for member in known.members],
        [part for known in files for part in known.terms],
    )
    builder = _Builder(clusters)
    for place in places:
        builder.add(place.server, [facts[path] for path in place.paths])
    return builder.finish()


class _Builder:
    """Held while a catalog is made."""

    def __init__(self, clusters: dict[str, KnownCluster]) -> None:
        self.catalog = Catalog()
        self._clusters = clusters
        for cluster in clusters.values():
            self.catalog.clusters[cluster.label] = cluster
            self.catalog.start_counts[cluster.label] = len(cluster.terms)
        # The replicated queues of clusters by their numbers.
        self._replicated: dict[tuple[str, int], KnownQueue] = {}
        # The present queue of a name, and the queues in clients' ledgers.
        self._living: dict[tuple[str, str, str], KnownQueue] = {}
        self._pairs: dict[tuple[str, str, str, str], KnownQueue] = {}
        self._reached: dict[str, list[int]] = defaultdict(list)
        self._sessions = Sessions()

    def add(self, server: str, files: list[FileFacts]) -> None:
        for known in files:
            self.catalog.records += known.records if known.records > 1 else 0
            if known.torn_bytes:
                self.catalog.torn_files.append(known.path)
        written = [known for known in files if not known.is_client and known.records > 1]
        start = 0
        for index, known in enumerate(written):
            if index == 0 and known.started_at < 0:
                self.catalog.truncated[server] = known.begun_at
            if index and known.started_at >= 0:
                start += 1
            self._sessions.add_broker(server, start, known)
            owners = self._owners_in_broker(server, known, start)
            for part in known.terms:
                owners.update(self._owners_in_term(known, part))
            self._add_broker_slices(server, known, start, owners)
        if written:
            self.catalog.start_counts[server] = start + 1
        for known in files:
            if known.is_client and known.records > 1:
                self._sessions.add_client(known)
                self._add_slices(server, known, 0, self._owners_in_client(known), 1, known.records)

    def _owners_in_broker(
        self, server: str, known: FileFacts, start: int
    ) -> dict[int, tuple[int, ...]]:
        owners: dict[int, tuple[int, ...]] = {}
        named_before: set[tuple[str, str]] = set()
        until = known.terms[0].at if known.terms else known.records
        for named in known.names:
            if named.is_publisher or named.is_member:
                continue
            if named.is_route:
                route = (server, named.vhost, named.queue, named.third)
                owners[named.number] = (self._pair(route, Role.ROUTE),)
                continue
            if named.at > until:
                # See `_owners_in_term`.
                continue
            key = (server, named.vhost, named.queue)
            queue = self._living.get(key)
            is_recovered = known.started_at >= 0 and named.time == known.started_at
            goes_on = known.started_at < 0 and named.is_in_head and key[1:] not in named_before
            if queue is None or not (is_recovered or goes_on):
                queue = self._new_queue(key, queue)
            elif is_recovered:
                queue.survived.add(start - 1)
            named_before.add(key[1:])
            queue.flags |= named.flags
            queue.starts.add(start)
            owners[named.number] = (queue.number,)
        return owners

    def _owners_in_term(self, known: FileFacts, part: TermPart) -> dict[int, tuple[int, ...]]:
        cluster = self._clusters[part.cluster]
        start = cluster.start_of(part.epoch)
        owners: dict[int, tuple[int, ...]] = {}
        named_before: set[tuple[str, str]] = set()
        for named in known.names:
            is_queue = not (named.is_publisher or named.is_member or named.is_route)
            if not is_queue or start < 0 or not part.at < named.at < part.end:
                continue
            queue = self._queue_of_term(cluster.label, named, start, named_before, part.continues)
            named_before.add((named.vhost, named.queue))
            queue.flags |= named.flags
            queue.starts.add(start)
            owners[named.number] = (queue.number,)
        return owners

    def _queue_of_term(
        self,
        label: str,
        named: Named,
        start: int,
        named_before: set[tuple[str, str]],
        continues: bool,
    ) -> KnownQueue:
        """One without a number was at this root only."""
        key = (label, named.vhost, named.queue)
        if named.first:
            queue = self._replicated.get((label, named.first))
            if queue is None:
                queue = self._new_queue(key, self._living.get(key))
                queue.is_replicated = True
                self._replicated[label, named.first] = queue
            return queue
        living = self._living.get(key)
        goes_on = continues and named.is_in_head and key[1:] not in named_before
        if living is not None and goes_on and not living.is_replicated and start in living.starts:
            return living
        return self._new_queue(key, living)

    def _new_queue(self, key: tuple[str, str, str], before: KnownQueue | None) -> KnownQueue:
        server, vhost, name = key
        life = 0 if before is None else before.life + 1
        role = Role.INTERNAL if name.startswith(INTERNAL_PREFIXES) else Role.QUEUE
        queue = KnownQueue(len(self.catalog.queues), server, vhost, name, role=role, life=life)
        self.catalog.queues.append(queue)
        self._living[key] = queue
        return queue

    def _owners_in_client(self, known: FileFacts) -> dict[int, tuple[int, ...]]:
        names = {named.number: named for named in known.names}
        for number in known.reaches:
            pair = self._pair(_client_key(names[number]), Role.CLIENT)
            reached = self._reached[names[number].third]
            if pair not in reached:
                reached.append(pair)
        owners: dict[int, tuple[int, ...]] = {}
        for named in known.names:
            if named.flags & form.IS_SESSION:
                continue
            if named.queue:
                owners[named.number] = (self._pair(_client_key(named), Role.CLIENT),)
                continue
            reached = self._reached[named.third]
            if not reached:
                reached.append(self._pair(_client_key(named), Role.CLIENT))
            owners[named.number] = tuple(reached)
        return owners

    def _pair(self, key: tuple[str, str, str, str], role: Role) -> int:
        pair = self._pairs.get(key)
        if pair is None:
            pair = KnownQueue(len(self.catalog.queues), *key, role)
            self.catalog.queues.append(pair)
            self._pairs[key] = pair
        return pair.number

    def _add_broker_slices(
        self, server: str, known: FileFacts, start: int, owners: dict[int, tuple[int, ...]]
    ) -> None:
        """Each term by itself."""
        for named in known.names:
            if not named.is_publisher:
                # Nothing in the slices refers to the others; every name has one owner.
                owners.setdefault(named.number, (0,))
        until = known.terms[0].at if known.terms else known.records
        self._add_slices(server, known, start, owners, 1, until)
        for part in known.terms:
            cluster = self._clusters[part.cluster]
            place = cluster.start_of(part.epoch)
            if place >= 0:
                late = part.uncommitted_from(cluster.terms[place].committed)
                self._add_slices(server, known, place, owners, part.at, part.end, late)

    def _add_slices(
        self,
        server: str,
        known: FileFacts,
        start: int,
        owners: dict[int, tuple[int, ...]],
        first: int,
        until: int,
        uncommitted_from: int = NEVER,
    ) -> None:
        flat: list[int] = []
        offsets = [0]
        for number in range(max(owners, default=-1) + 1):
            flat.extend(owners.get(number, ()))
            offsets.append(len(flat))
        texts = tuple((named.at, named.at + named.rows) for named in known.names)
        for begin in range(first, until, SLICE_RECORDS):
            end = min(begin + SLICE_RECORDS, until)
            self.catalog.slices.append(
                FileSlice(
                    server,
                    known.path,
                    start,
                    begin,
                    end,
                    tuple(offsets),
                    tuple(flat),
                    texts,
                    known.records,
                    uncommitted_from=uncommitted_from,
                )
            )

    def finish(self) -> Catalog:
        """At the end: match publishers in the brokers' files with clients."""
        catalog = self.catalog
        identified = self._sessions.publishers()
        pairs: dict[tuple[str, int], int] = {}
        for queue in catalog.queues:
            if queue.role is not Role.QUEUE:
                continue
            for publisher in identified:
                pair = self._pairs.get(("", queue.vhost, queue.queue, publisher))
                if pair is not None:
                    pair.is_identified = True
                    pairs[publisher, queue.number] = pair.number
        if pairs:
            catalog.slices = [
                replace(known, origins=self._sessions.origins(known.path, pairs))
                for known in catalog.slices
            ]
        return catalog


def _client_key(named: Named) -> tuple[str, str, str, str]:
    return ("", named.vhost, named.queue, named.third)
