"""The terms of a cluster's roots: which server was the root when, and which ledgers are missing.

A server's ledger has records for the time in which it was the root, its *term*, which has an epoch.
All terms of a cluster in their order are to an audit what the starts of one broker are: what the
last root had and the next one has not inherited is missing. The next root says whose state it
inherited, so a term whose ledger is not there is noticed.

A root that was elected and failed before anything of its epoch was committed has served nobody, and
no later root has inherited from it: its term is left out.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from penstock.formats import ledger_records as form

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

# Enough of a cluster's id to tell clusters apart.
_LABEL_DIGITS: Final = 8
_LOW_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class TermPart:
    """A term, as far as one file has it: the records from `at` until `end`."""

    at: int
    end: int
    epoch: int
    # The epoch of the root whose state this one has inherited; 0 for none.
    before: int
    # The term began in an earlier file.
    continues: bool
    cluster: str
    server: str
    members: tuple[str, ...]
    time: int
    # The journal's position after the first tick, and up to which it was committed last; -1 when
    # nothing says so.
    first_position: int
    committed: int
    # Behind the last record that speaks of a position.
    marked_until: int
    # What was not committed by then: where its records begin, and its position.
    pending: tuple[tuple[int, int], ...]

    @staticmethod
    def from_told(told: dict[str, Any]) -> TermPart:
        """From what JSON made of it."""
        told["members"] = tuple(told["members"])
        told["pending"] = tuple((begin, position) for begin, position in told["pending"])
        return TermPart(**told)

    def uncommitted_from(self, committed: int) -> int:
        """The first record about messages that were not committed when the term ended."""
        for begin, position in self.pending:
            if position > committed:
                return begin
        return self.marked_until


def find_parts(
    records: npt.NDArray[np.void],
    members: dict[int, tuple[str, str, tuple[str, ...]]],
    roots: npt.NDArray[np.int64],
    marks: npt.NDArray[np.int64],
    end: int,
) -> tuple[TermPart, ...]:
    """From where ROOT and COMMITTED records are, and the members by the numbers of their names."""
    parts: list[TermPart] = []
    bounds = [*roots.tolist(), end]
    for at, until in pairwise(bounds):
        record = records[at]
        own = marks[(marks > at) & (marks < until)]
        marked = records[own]
        position = marked["first"].astype(np.int64)
        lag = marked["count"] + (marked["sequence"].astype(np.int64) << _LOW_BITS)
        committed = int((position - lag)[-1]) if len(own) else -1
        late = int(np.searchsorted(position, committed, "right"))
        begins = np.append(at, own) + 1
        cluster, server, names = members[int(record["name"])]
        parts.append(
            TermPart(
                at=at,
                end=until,
                epoch=int(record["first"]),
                before=int(record["count"]),
                continues=bool(record["detail"] & form.CONTINUES),
                cluster=cluster,
                server=server,
                members=names,
                time=int(record["time"]),
                first_position=int(position[0]) if len(own) else -1,
                committed=committed,
                marked_until=int(begins[-1]),
                pending=tuple(zip(begins[late:-1].tolist(), position[late:].tolist(), strict=True)),
            )
        )
    return tuple(parts)


@dataclass(slots=True)
class RootTerm:
    """One epoch's root, from all its files."""

    epoch: int
    before: int
    server: str
    time: int
    # Whether a file has its beginning, and with it what it has inherited.
    has_begin: bool = False
    first_position: int = -1
    committed: int = -1

    @property
    def was_active(self) -> bool:
        """Whether its first tick was committed. Of a term without a beginning that is not known, but
        it was long enough to fill a file.
        """
        return not self.has_begin or 0 <= self.first_position <= self.committed


@dataclass(slots=True)
class KnownCluster:
    """A cluster, as far as ledgers of its members were given. Held by the catalog."""

    label: str
    terms: list[RootTerm] = field(default_factory=list)
    # Servers whose ledgers were given, and the members as the last root knew them.
    given: set[str] = field(default_factory=set)
    members: tuple[str, ...] = ()

    def start_of(self, epoch: int) -> int:
        """The place of a term among them; -1 for one that is left out."""
        for place, term in enumerate(self.terms):
            if term.epoch == epoch:
                return place
        return -1

    @property
    def absent(self) -> list[str]:
        return [name for name in self.members if name not in self.given]

    def missing_before(self, place: int) -> int:
        """The epoch whose ledger is missing between a term and the one before it; 0 for none."""
        inherited = self.terms[place].before
        known = self.terms[place - 1].epoch if place else 0
        return inherited if inherited > known else 0

    def is_unknown_after(self, place: int) -> bool:
        """Whether the end of what a root had at its end cannot be known."""
        following = place + 1
        return following < len(self.terms) and (
            self.missing_before(following) > 0 or not self.terms[following].has_begin
        )

    @property
    def since(self) -> int:
        """The time from which on its ledgers are there; 0 when that is from its first root on."""
        first = self.terms[0] if self.terms else None
        return 0 if first is None or (first.has_begin and not first.before) else first.time

    @property
    def is_whole(self) -> bool:
        """Whether no ledger is missing from then on."""
        places = range(len(self.terms))
        return not self.absent and not any(self.is_unknown_after(place) for place in places)


def find_clusters(
    members: Iterable[tuple[str, str]], parts: Iterable[TermPart]
) -> dict[str, KnownCluster]:
    """By the cluster's id, from whose ledgers there are, as cluster and server, and their terms."""
    clusters: dict[str, KnownCluster] = {}
    terms: dict[str, dict[int, RootTerm]] = defaultdict(dict)
    latest: dict[str, int] = {}
    for cluster, server in members:
        if cluster not in clusters:
            clusters[cluster] = KnownCluster(f"cluster {cluster[:_LABEL_DIGITS]}")
        clusters[cluster].given.add(server)
    for part in parts:
        _enter_part(terms[part.cluster], part)
        if part.epoch >= latest.get(part.cluster, 0):
            latest[part.cluster] = part.epoch
            clusters[part.cluster].members = part.members
    for cluster, found in clusters.items():
        found.terms = _served(terms[cluster])
    return clusters


def _enter_part(terms: dict[int, RootTerm], part: TermPart) -> None:
    term = terms.setdefault(part.epoch, RootTerm(part.epoch, part.before, part.server, part.time))
    term.committed = max(term.committed, part.committed)
    if not part.continues:
        term.has_begin = True
        term.first_position = part.first_position
    term.time = min(term.time, part.time)


def _served(terms: dict[int, RootTerm]) -> list[RootTerm]:
    """Those that were active, or from which a later root has inherited; in their order."""
    inherited: set[int] = set()
    found: list[RootTerm] = []
    for epoch in sorted(terms, reverse=True):
        term = terms[epoch]
        if term.was_active or epoch in inherited:
            found.append(term)
            inherited.add(term.before)
    return found[::-1]
