"""What was defined after each operation of each root, for comparison with what others hold.

The definitions of a server at position k of epoch e are those that the root of e had after k operations
(I4), so whoever becomes the root has everything that was answered before (P5). The same is true of how
often messages came back, which changes without a definition when such a message leaves, and of what
streams know beside their messages.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from penstock.broker.internal_queues import LEASE_OF
from penstock.broker.queue_notes import counts_out, notes_of
from penstock.broker.streams.opening import streams_of
from penstock.broker.streams.stream_values import StreamEpochs
from penstock.broker.topology import ChangeStream, NoteReturns
from penstock.node.node import Node
from penstock.simulation.durable_host import stored_of
from penstock.simulation.recovery_ledger import definitions_of

# A message in a queue: the queue's name, the position.
Place = tuple[str, int]
Key = TypeVar("Key")
Known = TypeVar("Known")


@dataclass(frozen=True, slots=True)
class Changing:
    """What changes without a definition."""

    # How often messages came back.
    counts: dict[Place, int]
    streams: dict[str, ChangeStream]


class DefinitionHistory:
    """Held by the ledger of a cluster. By epoch it has each operation that changed something, and what
    is there since then, in the order of operations.
    """

    def __init__(self) -> None:
        self._definitions: dict[int, list[tuple[int, frozenset[str]]]] = {}
        self._changing: dict[int, list[tuple[int, Changing]]] = {}

    def defined(self, node: Node, epoch: int, k: int) -> None:
        """The root of an epoch has changed something with operation k, or begins: position 0."""
        _add(self._definitions.setdefault(epoch, []), k, _definitions(node))

    def tick_ended(self, node: Node, epoch: int, k: int) -> None:
        _add(self._changing.setdefault(epoch, []), k, _changing(node))

    def wrong_in(self, node: Node, at: tuple[int, int]) -> list[str]:
        """How a node at a position differs from the root of that time; nothing if there was none."""
        known = _last_of(self._changing, at)
        if known is None:
            return self._defined_otherwise(node, at)
        found = _changing(node)
        return (
            self._defined_otherwise(node, at)
            + _differences(at, known.counts, found.counts)
            + _differences(at, known.streams, found.streams)
        )

    def wrong_in_new_root(self, node: Node, at: tuple[int, int]) -> list[str]:
        """The same after the first tick of a root that was at this position before. In that tick it
        decides: messages above a limit leave, and their counts with them; retention gives up segments.
        """
        known = _last_of(self._changing, at)
        if known is None:
            return self._defined_otherwise(node, at)
        found = _changing(node)
        there = _places(node)
        counts = {place: count for place, count in known.counts.items() if place in there}
        streams = {
            name: after_retention(whole, found.streams.get(name, whole))
            for name, whole in known.streams.items()
        }
        return (
            self._defined_otherwise(node, at)
            + _differences(at, counts, found.counts)
            + _differences(at, streams, found.streams)
        )

    def _defined_otherwise(self, node: Node, at: tuple[int, int]) -> list[str]:
        known = _last_of(self._definitions, at)
        found = _definitions(node)
        if known is None or known == found:
            return []
        return [_complaint(at, sorted(known - found), sorted(found - known))]


def _add(history: list[tuple[int, Known]], k: int, known: Known) -> None:
    if not history or history[-1][1] != known:
        history.append((k, known))


def _last_of(history: dict[int, list[tuple[int, Known]]], at: tuple[int, int]) -> Known | None:
    """What was there after an operation."""
    epoch, k = at
    known = [there for made_by, there in history.get(epoch, []) if made_by <= k]
    return known[-1] if known else None


def _definitions(node: Node) -> frozenset[str]:
    lines = definitions_of(node).splitlines()
    # A new root ends leases that have expired in its first tick; `LeaseBook` follows them.
    others = (NoteReturns.__name__, ChangeStream.__name__, LEASE_OF)
    return frozenset([line for line in lines if not any(name in line for name in others)])


def _changing(node: Node) -> Changing:
    out = counts_out(node.unsettled())
    names = {queue.name for queue in node.state.queues()}
    counts = {
        (note.queue, position): deliveries
        for queue in node.state.queues()
        for note in notes_of(queue, out)
        if isinstance(note, NoteReturns)
        for first, count, deliveries in note.returns
        for position in range(first, first + count)
    }
    streams: dict[str, ChangeStream] = {}
    for stream in streams_of(node.state.queues()):
        if stream.values is not None:
            whole = stream.values.whole(stream.name)
            # What came from a stage that is gone is forgotten sooner by a start than by a root.
            rows = {key: n for key, n in whole.rows.items() if key.partition(" ")[2] in names}
            streams[stream.name] = replace(whole, rows=rows)
    return Changing(counts, streams)


def _places(node: Node) -> set[Place]:
    """Of every message that is here."""
    replica = stored_of(node).replica
    assert replica is not None, "a member has a replica"
    names = {queue.number: queue.name for queue in node.state.queues() if queue.number}
    held = replica.held_messages().everything()
    return {
        (names[number], position)
        for number, places in held.items()
        if number in names
        for position in places[0]
    }


def after_retention(known: ChangeStream, found: ChangeStream) -> ChangeStream:
    """What is known of a stream, as far as it is left once the stream begins where it was found to begin,
    and messages of a later epoch were appended. A stream never begins earlier than it did.
    """
    if found.first_offset < known.first_offset:
        return known
    epochs = StreamEpochs()
    epochs.firsts = _firsts(known)
    last = epochs.firsts[-1] if epochs.firsts else (0, 0)
    epochs.firsts += [(epoch, first) for epoch, first in _firsts(found) if epoch > last[0]]
    left = epochs.from_offset(found.first_offset)
    return replace(
        known,
        first_offset=found.first_offset,
        epochs=tuple([epoch for epoch, _ in left]),
        epoch_firsts=tuple([first for _, first in left]),
    )


def _firsts(whole: ChangeStream) -> list[tuple[int, int]]:
    return list(zip(whole.epochs, whole.epoch_firsts, strict=True))


def _differences(
    at: tuple[int, int], known: Mapping[Key, object], found: Mapping[Key, object]
) -> list[str]:
    if known == found:
        return []
    lacking = [f"{key}: {said}" for key, said in known.items() if found.get(key) != said]
    more = [f"{key}: {said}" for key, said in found.items() if known.get(key) != said]
    return [_complaint(at, lacking, more)]


def _complaint(at: tuple[int, int], lacking: list[str], more: list[str]) -> str:
    return f"at {at} it lacks {lacking[:3]} and has {more[:3]} (P5)"
