"""What an audit of a cluster cannot know, because the ledgers of some of its members are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.spark.jobs.ledger_terms import KnownCluster


def doubts(cluster: KnownCluster, unknown: int, queued: int) -> list[str]:
    """Sentences for people. So many messages were queued when a root ended whose successor is not
    known, and so many still are at the last known one.
    """
    found = [*_of_missing_terms(cluster, unknown), *_of_beginning(cluster)]
    if cluster.terms:
        found += _of_absent_members(cluster, queued)
    return found


def _of_missing_terms(cluster: KnownCluster, unknown: int) -> list[str]:
    places = [place for place in range(len(cluster.terms)) if cluster.is_unknown_after(place)]
    if not places:
        return []
    gaps = ", ".join(
        f"between {_named(cluster, place)} and {_named(cluster, place + 1)}" for place in places
    )
    told = (
        f"{cluster.label}: ledgers of roots are missing {gaps}. {unknown:,} messages were in queues "
        "then and were not inherited by the next root that is known: whether they were delivered, "
        "dropped or lost cannot be known."
    )
    return [told]


def _of_beginning(cluster: KnownCluster) -> list[str]:
    if not cluster.terms or not cluster.since:
        return []
    told = (
        f"{cluster.label}: the ledgers begin with {_named(cluster, 0)}, which was not the first "
        "root. What happened before cannot be known."
    )
    return [told]


def _of_absent_members(cluster: KnownCluster, queued: int) -> list[str]:
    if not cluster.absent:
        return []
    last = _named(cluster, len(cluster.terms) - 1)
    told = (
        f"{cluster.label}: there is no ledger of {', '.join(cluster.absent)}. Whether another root "
        f"followed {last} cannot be known, nor whether the {queued:,} messages that are still "
        "queued according to its ledger were delivered since then, or lost."
    )
    return [told]


def _named(cluster: KnownCluster, place: int) -> str:
    term = cluster.terms[place]
    return f"{term.server} (epoch {term.epoch})"
