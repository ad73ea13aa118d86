"""The messages that a queue gets when everything that is defined is made anew."""

from penstock.broker.queues.position_runs import Ranges
from penstock.broker.queues.replica_list import ReplicaList
from penstock.ha.replica_reading import RecordReader


class MadeQueue:
    """Held by the replica store until the queue is defined."""

    def __init__(self) -> None:
        self.messages: ReplicaList = ReplicaList()
        # Of their bodies.
        self.octets: int = 0

    def add(self, ready: ReplicaList, ranges: Ranges, octets: int, reader: RecordReader) -> None:
        """Take those of a list that lie in the ranges, and empty it; the list's bodies have so many
        octets. Mostly the ranges name all of it, and then nothing is copied.
        """
        made = self.messages
        made.may_expire = made.may_expire or ready.may_expire
        if ready.count_in(ranges) < ready.count:
            dropped = ready.keep(ranges)
            # Whichever are fewer are read; mostly these are none, or a few that the target lacks.
            if len(dropped) <= ready.count:
                octets -= reader.body_octets(dropped)
            else:
                octets = reader.body_octets(ready.journalled()[1])
        self.octets += octets
        made.absorb(ready)

    def fill(self, ready: ReplicaList) -> None:
        ready.absorb(self.messages)
        ready.may_expire = self.messages.may_expire
