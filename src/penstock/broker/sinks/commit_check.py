"""The check before a commit: how many of its rows reach no queue, and how many are for queues that
refuse what they have no room for.

Counting goes block by block, with others in between. What it found holds as long as the virtual
host's generation; the length of a queue is checked at the end.
"""

from penstock.broker.message import Address
from penstock.broker.publishing.target import Target, refuses
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.sinks.row_targets import RowTargets
from penstock.broker.vhost import VirtualHost
from penstock.formats.stage_block import BlockRows, RepeatedRows


class RefusingQueue:
    """What rows would bring to one queue. Held by the check."""

    def __init__(self, queue: MessageQueue) -> None:
        self.queue: MessageQueue = queue
        self.count: int = 0
        self.octets: int = 0
        self.octets_max: int = 0

    def add(self, size: int) -> None:
        self.count += 1
        self.octets += size
        self.octets_max = max(self.octets_max, size)

    def can_ever_fit(self) -> bool:
        """Whether each of them would fit into the empty queue."""
        settings = self.queue.settings
        return settings.max_length != 0 and not 0 <= settings.max_length_bytes < self.octets_max

    def fits(self) -> bool:
        """Whether all of them fit now."""
        settings = self.queue.settings
        return not (
            0 <= settings.max_length < self.queue.ready_count + self.count
            or 0 <= settings.max_length_bytes < self.queue.ready_bytes + self.octets
        )


class CommitCheck:
    """The check of one commit, or of rows that are about to be staged. Held by the caller."""

    def __init__(self, vhost: VirtualHost, stages: tuple[str, ...], mandatory: bool) -> None:
        self._vhost: VirtualHost = vhost
        self._targets: RowTargets = RowTargets(vhost)
        self._stages: list[MessageQueue] = [vhost.queues[name] for name in stages]
        self._generation: int = vhost.generation
        self._mandatory: bool = mandatory
        # The next block of the first stage.
        self._position: int = 0
        self.count: int = 0
        # Rows that reach no queue, and the address of one of them.
        self.unroutable: int = 0
        self.unroutable_address: Address | None = None
        self._refusing: dict[MessageQueue, RefusingQueue] = {}

    def is_needed(self) -> bool:
        """Whether anything could be found."""
        if not self._stages:
            return False
        if self._mandatory:
            return True
        return any([refuses(queue) for queue in self._vhost.queues.values()])

    def step(self) -> bool:
        """Count a block; False when there is no more."""
        while self._stages:
            stage = self._stages[0]
            entry = None if stage.is_deleted else stage.entry_from(self._position)
            if entry is not None:
                self._position = entry.position + 1
                self.add(entry.message.body)
                return True
            self._stages.pop(0)
            self._position = 0
        return False

    def add(self, block: bytes) -> None:
        rows = BlockRows(block)
        for run in rows.runs():
            self._add_run(run)
        self.count += rows.count

    def _add_run(self, run: RepeatedRows) -> None:
        properties = self._targets.properties_of(run)
        target = self._targets.target_of(run, properties)
        if target.is_fixed and target.reaches_any and not target.refusing:
            return
        for _ in range(run.count):
            if not target.is_fixed:
                target = self._targets.target_of(run, properties)
            if not target.reaches_any or target.refusing:
                self._note(target, run.body_size)

    def _note(self, target: Target, size: int) -> None:
        if not target.reaches_any:
            self.unroutable += 1
            self.unroutable_address = self.unroutable_address or target.address
        for queue in target.refusing:
            known = self._refusing.get(queue)
            if known is None:
                known = RefusingQueue(queue)
                self._refusing[queue] = known
            known.add(size)

    def is_stale(self) -> bool:
        """Whether something was bound, declared or deleted since: then count again."""
        return self._generation != self._vhost.generation

    def refusing(self, waits: bool) -> RefusingQueue | None:
        """A queue that has no room for its rows, or with `waits` one that never will have."""
        for found in self._refusing.values():
            if not found.can_ever_fit() or (not waits and not found.fits()):
                return found
        return None
