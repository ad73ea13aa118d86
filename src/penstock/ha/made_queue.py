"""The messages that a queue gets when everything that is defined is made anew."""

from array import array

from penstock.broker.queues.ready_list import merged
from penstock.broker.queues.replica_list import Ranges, ReplicaList
from penstock.ha.replica_reading import RecordReader


class MadeQueue:
    """Held by the replica store until the queue is defined."""

    def __init__(self) -> None:
        self.places: tuple[array[int], array[int]] = (array("Q"), array("Q"))
        # Of their bodies.
        self.octets: int = 0
        self.may_expire: bool = False

    def add(self, ready: ReplicaList, ranges: Ranges, octets: int, reader: RecordReader) -> None:
        """Add those of a list that lie in the ranges; the list's bodies have so many octets. What it has
        is taken out if the ranges name all of it, which is mostly so and copies nothing.
        """
        self.may_expire = self.may_expire or ready.may_expire
        if ready.count_in(ranges) == ready.count:
            self.octets += octets
            self.places = merged(self.places, ready.take_all())
            return
        kept: tuple[array[int], array[int]] = (array("Q"), array("Q"))
        dropped: array[int] = array("Q")
        behind = 0
        for first, count in ranges:
            dropped.extend(ready.between(behind, first - behind)[1])
            behind = first + count
            positions, locations = ready.between(first, count)
            kept[0].extend(positions)
            kept[1].extend(locations)
        dropped.extend(ready.between(behind, max(ready.highest_position + 1 - behind, 0))[1])
        # Whichever are fewer are read; mostly these are none, or a few that the target lacks.
        if len(dropped) <= len(kept[0]):
            self.octets += octets - reader.body_octets(dropped)
        else:
            self.octets += reader.body_octets(kept[1])
        self.places = merged(self.places, kept)

    def fill(self, ready: ReplicaList) -> None:
        ready.add_many(self.places[0], self.places[1])
        ready.may_expire = self.may_expire
