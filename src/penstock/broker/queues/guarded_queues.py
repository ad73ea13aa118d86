"""Which queues have entries that wait for their operation to be committed, and for which one."""

from penstock.broker.queues.guarded_queue import GuardedQueue


class _SealedTick:
    """What one tick brought to which queues."""

    def __init__(self, position: int, queues: list[GuardedQueue]) -> None:
        self.position: int = position
        self.queues: list[GuardedQueue] = queues


class GuardedQueues:
    """Held by the node of a server that is a member of a cluster."""

    def __init__(self) -> None:
        # Queues that got entries in this tick. The makers of queues hold the same list.
        self.arrivals: list[GuardedQueue] = []
        self._ticks: list[_SealedTick] = []

    def end_of_tick(self, position: int) -> None:
        """What the tick brought is written, up to this journal position."""
        if not self.arrivals:
            return
        queues = self.arrivals[:]
        # The list object stays the same, because queues refer to it.
        self.arrivals.clear()
        for queue in queues:
            queue.seal(position)
        self._ticks.append(_SealedTick(position, queues))

    def has_ready(self, position: int) -> bool:
        """Whether a commit of this position makes anything ready."""
        return bool(self._ticks) and self._ticks[0].position <= position

    def committed(self, position: int, now: int) -> None:
        """Make ready what operations up to this journal position brought."""
        ticks = 0
        while ticks < len(self._ticks) and self._ticks[ticks].position <= position:
            for queue in self._ticks[ticks].queues:
                queue.committed(position, now)
            ticks += 1
        if ticks:
            del self._ticks[:ticks]

    def release_all(self) -> None:
        """This server is not the root any more."""
        for tick in self._ticks:
            for queue in tick.queues:
                queue.release_waiting()
        for queue in self.arrivals:
            queue.release_waiting()
            queue.seal(0)
        self._ticks = []
        self.arrivals.clear()
