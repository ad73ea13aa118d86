"""What was defined after each operation of each root, for comparison with what others hold.

The definitions of a server at position k of epoch e are those that the root of e had after k operations
(I4), so whoever becomes the root has everything that was answered before (P5). The same is true of how
often messages came back, which changes without a definition when such a message leaves, and of what
streams know beside their messages.
"""

from dataclasses import replace

from penstock.broker.internal_queues import LEASE_OF
from penstock.broker.queue_notes import counts_out, notes_of
from penstock.broker.streams.opening import streams_of
from penstock.broker.topology import ChangeStream, NoteReturns
from penstock.node.node import Node
from penstock.simulation.recovery_ledger import definitions_of

# The operation that changed something, and what is there since then.
Lines = tuple[int, frozenset[str]]


class DefinitionHistory:
    """Held by the ledger of a cluster."""

    def __init__(self) -> None:
        # By epoch, in the order of operations.
        self._definitions: dict[int, list[Lines]] = {}
        self._changing: dict[int, list[Lines]] = {}

    def defined(self, node: Node, epoch: int, k: int) -> None:
        """The root of an epoch has changed something with operation k, or begins: position 0."""
        _add(self._definitions.setdefault(epoch, []), k, _definitions(node))

    def tick_ended(self, node: Node, epoch: int, k: int) -> None:
        _add(self._changing.setdefault(epoch, []), k, _changing(node))

    def wrong_in(self, node: Node, at: tuple[int, int], has_decided: bool = False) -> list[str]:
        """How a node at a position differs from the root of that time; nothing if there was none. A new
        root that `has_decided` may have dropped messages above a limit, and with them what was noted.
        """
        return _differences(self._definitions, _definitions(node), at, False) + _differences(
            self._changing, _changing(node), at, has_decided
        )


def _add(history: list[Lines], k: int, lines: frozenset[str]) -> None:
    if not history or history[-1][1] != lines:
        history.append((k, lines))


def _definitions(node: Node) -> frozenset[str]:
    lines = definitions_of(node).splitlines()
    # A new root ends leases that have expired in its first tick; `LeaseBook` follows them.
    others = (NoteReturns.__name__, ChangeStream.__name__, LEASE_OF)
    return frozenset([line for line in lines if not any(name in line for name in others)])


def _changing(node: Node) -> frozenset[str]:
    out = counts_out(node.unsettled())
    names = {queue.name for queue in node.state.queues()}
    found = [
        f"{note.queue}: {position} came back after {deliveries}"
        for queue in node.state.queues()
        for note in notes_of(queue, out)
        if isinstance(note, NoteReturns)
        for first, count, deliveries in note.returns
        for position in range(first, first + count)
    ]
    for stream in streams_of(node.state.queues()):
        if stream.values is not None:
            whole = stream.values.whole(stream.name)
            # What came from a stage that is gone is forgotten sooner by a start than by a root.
            rows = {key: n for key, n in whole.rows.items() if key.partition(" ")[2] in names}
            found.append(str(replace(whole, rows=rows)))
    return frozenset(found)


def _differences(
    history: dict[int, list[Lines]], found: frozenset[str], at: tuple[int, int], may_lack: bool
) -> list[str]:
    epoch, k = at
    known = [lines for made_by, lines in history.get(epoch, []) if made_by <= k]
    if not known or known[-1] == found or (may_lack and found < known[-1]):
        return []
    lacking, more = sorted(known[-1] - found), sorted(found - known[-1])
    return [f"at {at} it lacks {lacking[:3]} and has {more[:3]} (P5)"]
