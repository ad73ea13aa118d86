"""The record of what jobs staged and committed, and where it must be published: once, or not at
all.
"""

from typing import Final

from penstock.broker.internal_queues import STAGE_OF
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.state import DEFAULT_VHOST
from penstock.formats.stage_block import BlockRows
from penstock.node.node import Node
from penstock.simulation.checkers import bodies_of, queues_of
from penstock.simulation.copies import body_of, name_in
from penstock.simulation.ledger import Ledger, PromiseKeeper
from penstock.simulation.scenarios import (
    ALSO_LANDED,
    LANDED,
    NARROW,
    PARTITIONED_STREAM,
    SPREAD,
    SQUEEZED,
    STREAM,
    STREAM_NAMES,
)

# Where messages may arrive; the partitions of a stream count as one place.
QUEUES: Final = (LANDED, ALSO_LANDED, NARROW, *STREAM_NAMES)
# Exchange and routing key of a message, and the places that it must reach.
PLACES: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("", LANDED): (LANDED,),
    ("", STREAM): (STREAM,),
    ("", NARROW): (NARROW,),
    (SQUEEZED, ""): (NARROW, LANDED, STREAM),
    (SPREAD, ""): (LANDED, ALSO_LANDED, STREAM),
    (PARTITIONED_STREAM, "red"): (PARTITIONED_STREAM,),
    (PARTITIONED_STREAM, "blue"): (PARTITIONED_STREAM,),
}
Batch = tuple[str, int]  # a sink and the number of a batch


class StagedCopy:
    """One message of one attempt. Held by the book and by the job."""

    def __init__(
        self, batch: Batch, partition: int, attempt: int, index: int, route: tuple[str, str],
        size: int,
    ) -> None:  # fmt: skip
        self.batch = batch
        self.partition = partition
        self.attempt = attempt
        self.order = (batch[1], partition, index)
        self.route = route
        self.places = PLACES[route]
        self.name = f"{batch[0]}.{batch[1]}.{partition}.{attempt}.{index}".encode()
        self.body = body_of(self.name, size)


class SinkBook(PromiseKeeper):
    """Held by the ledger and by the jobs."""

    def __init__(self, ledger: Ledger) -> None:
        self.copies: dict[bytes, StagedCopy] = {}
        # What each commit that was asked for names: the attempt of every partition.
        self.asked: dict[Batch, list[dict[int, int]]] = {}
        # Confirmed by the broker: committed, and published too.
        self.decided: dict[Batch, dict[int, int]] = {}
        self.published: set[Batch] = set()
        # What was taken out of the narrow queue: durably, and as far as is known.
        self._gone: set[bytes] = set()
        self._taken: set[bytes] = set()
        self._in_doubt: set[bytes] = set()
        # Sinks that have batches to write.
        self.open_sinks: set[str] = set()
        self._ledger = ledger
        ledger.promise_keepers.append(self)

    def take(self, body: bytes) -> None:
        name = name_in(body)
        if name in self._gone | self._taken:
            self._ledger.violated(f"{name!r} was taken out of {NARROW} twice")
        self._taken.add(name)

    def taken_is_safe(self) -> None:
        self._gone |= self._taken
        self._taken = set()

    def taken_is_in_doubt(self) -> None:
        self._in_doubt |= self._taken
        self._taken = set()

    def broken(self, node: Node) -> list[str]:
        complaints: list[str] = []
        arrived: dict[str, set[bytes]] = {}
        attempts: dict[tuple[Batch, int], int] = {}
        for queue in QUEUES:
            place = PARTITIONED_STREAM if queue.startswith(PARTITIONED_STREAM) else queue
            names = arrived.setdefault(place, set(self._gone) if place == NARROW else set())
            last: dict[str, tuple[int, int, int]] = {}
            for body in bodies_of(node, queues_of(node)[queue]):
                copy = self.copies.get(name_in(body))
                if copy is None or copy.body != body or place not in copy.places:
                    complaints.append(f"{queue} holds {body[:40]!r}, which was not sent there")
                    continue
                if copy.name in names:
                    complaints.append(f"{copy.name!r} was published twice to {place}")
                names.add(copy.name)
                if not self._may_be_there(copy, attempts):
                    complaints.append(
                        f"{copy.name!r} was published, although its commit does not count"
                    )
                sink = copy.batch[0]
                if copy.order <= last.get(sink, (-1, 0, 0)):
                    complaints.append(f"{copy.name!r} was published out of order to {queue}")
                last[sink] = copy.order
        arrived[NARROW] |= self._taken | self._in_doubt
        return complaints + self._missing(node, arrived)

    def _may_be_there(self, copy: StagedCopy, attempts: dict[tuple[Batch, int], int]) -> bool:
        """Whether a commit names its attempt: the one that counts, or one in doubt."""
        decided = self.decided.get(copy.batch)
        asked = self.asked.get(copy.batch, []) if decided is None else [decided]
        if not any(commit.get(copy.partition) == copy.attempt for commit in asked):
            return False
        return attempts.setdefault((copy.batch, copy.partition), copy.attempt) == copy.attempt

    def _missing(self, node: Node, arrived: dict[str, set[bytes]]) -> list[str]:
        """Committed messages are published, or still to be published."""
        complaints: list[str] = []
        waiting = staged_in(node)
        for copy in self.copies.values():
            decided = self.decided.get(copy.batch)
            if decided is None or decided.get(copy.partition) != copy.attempt:
                continue
            absent = [place for place in copy.places if copy.name not in arrived[place]]
            is_waiting = copy.name in waiting and copy.batch not in self.published
            if absent and not is_waiting:
                complaints.append(f"{copy.name!r} was committed, but is not in {absent}")
        return complaints

    def unfinished(self, node: Node) -> list[str]:
        complaints = [f"sink {sink} has more to write" for sink in sorted(self.open_sinks)]
        if not complaints:
            complaints += [f"stage {queue.name} is left over" for queue in stages_in(node)]
        return complaints


def stages_in(node: Node) -> list[MessageQueue]:
    return [queue for queue in queues_of(node).values() if STAGE_OF in queue.arguments]


def staged_in(node: Node) -> set[bytes]:
    """What is staged, or taken out of a stage by a step that is not over."""
    blocks = [block for queue in stages_in(node) for block in bodies_of(node, queue)]
    for sink in node.state.vhost(DEFAULT_VHOST).sinks.values():
        blocks += [taken.entry.message.body for taken in sink.taken]
    return {name_in(body) for block in blocks for body in bodies_in(block)}


def bodies_in(block: bytes) -> list[bytes]:
    return [body for run in BlockRows(block).runs() for body in run.bodies(0)]
