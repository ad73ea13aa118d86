"""The record of streams whose retention gives up segments, in a cluster.

Only the root decides what is given up, and only what is too much or too old. What a root decided and
could not commit is there again at the next one. What was committed never comes back, and a reader goes on
where retention has left the first message, without any other hole.
"""

from collections import deque
from typing import Final

from penstock.broker.streams.stream import Stream
from penstock.node.node import Node
from penstock.simulation.checkers import BROWSE_MAX
from penstock.simulation.cluster_ledger import DRIFT_MS
from penstock.simulation.copies import name_in
from penstock.simulation.ledger import Ledger
from penstock.simulation.plans import RetentionPlan
from penstock.simulation.stream_book import Readings, StreamBook, held_for, stream_of

# What a message costs in a segment beside its body, at the most.
MESSAGE_BYTES: Final = 250
GIVES_UP: Final = "retention gives up a segment"
UNDONE: Final = "what retention gave up is there again at the next root"
SKIPPED: Final = "a reader goes on behind what retention gave up"


class Stored:
    """A message at an offset, as the newest root has it. Held by the book."""

    def __init__(self, name: bytes, size: int, since_ms: int) -> None:
        self.name = name
        # Not smaller than what it takes in its segment.
        self.size = size
        self.since_ms = since_ms


class Retained:
    """One stream. Held by the book."""

    def __init__(self, plan: RetentionPlan) -> None:
        self.plan = plan
        self.content: dict[int, Stored] = {}
        self.end = 0
        # Where segments began, at any time, and where the stream did.
        self.starts: set[int] = set()
        self.firsts: set[int] = {0}
        self.first = 0
        # Committed: no server may have an earlier one.
        self.committed_first = 0


class RetentionBook(StreamBook):
    """Held by the ledger, the publishers and the readers."""

    def __init__(self, ledger: Ledger, plans: dict[str, RetentionPlan]) -> None:
        super().__init__(ledger, tuple(plans))
        self._retained = {name: Retained(plan) for name, plan in plans.items()}
        self._epoch = 0
        # What any root gave up, and where it was.
        self._given_up: dict[bytes, tuple[str, int]] = {}
        # Journal positions of the root, with a stream and where it begins since then.
        self._pending: deque[tuple[int, Retained, int]] = deque()

    # What a root does.

    def root_ticked(self, node: Node, epoch: int) -> None:
        is_new = epoch != self._epoch
        if is_new:
            self._epoch = epoch
            self._pending.clear()
        for name, retained in self._retained.items():
            stream = stream_of(node, name)
            if stream is None:
                continue
            if is_new or stream.end_offset != retained.end:
                self._read(retained, stream)
            first = first_of(stream)
            retained.starts.update([segment.first_offset for segment in stream.files.log.segments])
            retained.firsts.update([first, stream.first_offset])
            if first > retained.first:
                self._judge(name, retained, first)
                self._ledger.history.sighted(GIVES_UP)
                self._pending.append((node.durability.written, retained, first))
            elif first < retained.first:
                self._ledger.history.sighted(UNDONE)
            if is_new:
                # What it inherits is committed with position 0.
                self._pending.append((node.durability.written, retained, first))
            retained.first = first
        if node.member is not None and node.member.primary is not None:
            self._committed(node.durability.durable)

    def _committed(self, position: int) -> None:
        while self._pending and self._pending[0][0] <= position:
            _, retained, first = self._pending.popleft()
            retained.committed_first = max(retained.committed_first, first)

    def _read(self, retained: Retained, stream: Stream) -> None:
        """What is not committed may have been replaced by something else."""
        now = self._ledger.history.now()
        retained.end = stream.end_offset
        for entry in [*stream.browse(BROWSE_MAX), *held_for(stream)]:
            body = entry.message.body
            known = retained.content.get(entry.position)
            if known is None or known.name != name_in(body):
                stored = Stored(name_in(body), len(body) + MESSAGE_BYTES, now)
                retained.content[entry.position] = stored

    def _judge(self, stream: str, retained: Retained, first: int) -> None:
        """Each message before the new first offset is too old, or in a segment that was too much."""
        plan, content = retained.plan, retained.content
        oldest = self._ledger.history.now() - max(plan.age_ms_max - DRIFT_MS, 0)
        for offset in range(first):
            stored = content.get(offset)
            if stored is None or stored.name in self._given_up:
                continue
            self._given_up[stored.name] = (stream, offset)
            is_old = plan.age_ms_max > 0 and stored.since_ms <= oldest
            start = max([one for one in retained.starts if one <= offset], default=0)
            held = sum([content[at].size for at in range(start, retained.end) if at in content])
            if not is_old and not 0 < plan.bytes_max < held:
                self._ledger.violated(
                    f"{stream} gave up {stored.name!r} at {offset}, which is within its limits"
                )

    # What must hold.

    def broken(self, node: Node) -> list[str]:
        complaints = super().broken(node)
        for name, retained in self._retained.items():
            stream = stream_of(node, name)
            if stream is not None and first_of(stream) < retained.committed_first:
                complaints.append(
                    f"{name} begins at {first_of(stream)} again, although everything before "
                    f"{retained.committed_first} was given up"
                )
        return complaints

    def begin_of(self, stream: Stream) -> int:
        return stream.first_offset

    def may_lack(self, name: bytes, node: Node) -> bool:
        place = self._given_up.get(name)
        if place is None:
            return False
        stream = stream_of(node, place[0])
        return stream is not None and place[1] < first_of(stream)

    def may_skip(self, readings: Readings, offset: int) -> bool:
        if offset not in self._retained[readings.stream].firsts:
            return False
        self._ledger.history.sighted(SKIPPED)
        readings.skip_to(offset)
        return True


def first_of(stream: Stream) -> int:
    """By the state of a server, whose files may be behind it."""
    assert stream.values is not None, "a replicated stream"
    return stream.values.first_offset
