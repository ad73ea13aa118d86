"""A simulated server of a cluster whose output a test can read."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.formats.amqp091_frames import (
    FRAME_HEAD_SIZE,
    FRAME_OVERHEAD,
    METHOD_FRAME,
    PROTOCOL_HEADER,
)
from penstock.formats.octets import read_u16, read_u32
from penstock.ha.replica_reading import RecordReader
from penstock.ha.replica_store import ReplicaStore
from penstock.simulation.cluster_host import ClusterHost, ClusterWorld
from penstock.simulation.dice import Dice
from penstock.simulation.endpoint import Endpoint
from penstock.world.network import Transport

CLUSTER_CLASS = 61440


@dataclass(frozen=True, slots=True)
class PeerMessage:
    """A content of class cluster as it was written: who wrote it, what kind it says it is."""

    sender: str
    method_id: int
    kind: int


class TappedTransport(Transport):
    """Keeps what a server writes."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.written = bytearray()

    def write(self, data: bytes) -> None:
        self.written += data
        self._endpoint.write(data)

    def close(self) -> None:
        self._endpoint.close()

    def abort(self) -> None:
        self._endpoint.abort()

    def has_hung_up(self) -> bool:
        return self._endpoint.has_hung_up()

    def pause_reading(self) -> None:
        self._endpoint.pause_reading()

    def resume_reading(self) -> None:
        self._endpoint.resume_reading()


def methods_in(said: bytes | bytearray) -> list[bytes]:
    """The payloads of all method frames."""
    written = bytes(said)
    at = len(PROTOCOL_HEADER) if written.startswith(PROTOCOL_HEADER) else 0
    found: list[bytes] = []
    while at + FRAME_HEAD_SIZE <= len(written):
        size = read_u32(written, at + 3)
        if written[at] == METHOD_FRAME:
            found.append(written[at + FRAME_HEAD_SIZE : at + FRAME_HEAD_SIZE + size])
        at += size + FRAME_OVERHEAD
    return found


class CalmDice(Dice):
    """Nothing unlikely happens: no segment is sent twice, so that seniority decides elections."""

    def fork(self, name: str) -> CalmDice:
        return CalmDice(self._make_source, f"{self._name}/{name}")

    def chance(self, probability: float) -> bool:
        return False


class WatchedHost(ClusterHost):
    """A server whose output can be read. It comes back only when the test says so."""

    def __init__(self, name: str, world: ClusterWorld, dice: Dice) -> None:
        self.taps: list[TappedTransport] = []
        super().__init__(name, world, dice)
        self.is_calm = True

    def start(self) -> None:
        # Its clock is right, so that the most senior server is the first one.
        self._drift = 0
        super().start()

    def transport(self, endpoint: Endpoint) -> Transport:
        tap = TappedTransport(endpoint)
        self.taps.append(tap)
        return tap

    def messages(self) -> list[PeerMessage]:
        """What it has said to other servers, line by line."""
        return [
            PeerMessage(self.name, read_u16(method, 2), method[4])
            for tap in self.taps
            for method in methods_in(tap.written)
            if read_u16(method, 0) == CLUSTER_CLASS and read_u16(method, 2) in {20, 30}
        ]

    def revive(self) -> None:
        assert self.is_dead
        self.is_dead = False
        self.start()

    def forget_format(self) -> None:
        """Its next start formats an empty disk."""
        self._is_formatted = False

    @property
    def replica(self) -> ReplicaStore:
        assert self.node.stored is not None and self.node.stored.replica is not None
        return self.node.stored.replica

    def bodies(self, queue: str) -> list[bytes]:
        """What is in a queue, ready or not, in the order of positions; read from the disk."""
        found = self.node.state.vhost("/").queues.get(queue)
        if found is None:
            return []
        assert self.node.stored is not None
        reader = RecordReader(self.node.stored.journal)
        places = self.replica.held_messages().everything().get(found.number)
        return [] if places is None else [reader.record(at).body() for at in places[1]]

    def positions(self, queue: str) -> list[int]:
        found = self.node.state.vhost("/").queue(queue)
        places = self.replica.held_messages().everything().get(found.number)
        return [] if places is None else list(places[0])
