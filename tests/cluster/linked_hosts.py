"""Hosts of a simulated network whose nodes have peer links, and what their listeners heard."""

from __future__ import annotations

from penstock.broker.timers import WallClock
from penstock.cluster.links import LinkSettings, LinkSurroundings, PeerLinks
from penstock.cluster.links_listener import LinksListener, PeerLine
from penstock.cluster.peer_identity import PROTOCOL_VERSION, PeerIdentity
from penstock.formats.peer_limits import BadPeerMessage
from penstock.simulation.clock import WALL_START_MS, VirtualClock
from penstock.simulation.dialler import HostDialler
from penstock.simulation.entropy import SeededEntropy
from penstock.simulation.history import History
from penstock.simulation.host import Host
from penstock.simulation.network import Network
from penstock.wire.amqp091.limits import Limits
from tests.simulation.doubles import dice_of
from tests.support.recorded_events import RecordedEvents

KEY = b"the key of this cluster"
SECOND = 1_000_000
LINK_TICK_US = 50_000
SPOILED = b"spoiled"


class HeardLinks(LinksListener):
    """Keeps every call as a tuple."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.lines: dict[str, PeerLine] = {}

    def received(self, name: str, store_id: bytes, kind: int, octets: bytes, now: int) -> None:
        if octets == SPOILED:
            raise BadPeerMessage("it is spoiled")
        self.calls.append(("received", name, store_id, kind, octets))

    def link_up(self, name: str, now: int) -> None:
        self.calls.append(("link_up", name))

    def link_down(self, name: str, now: int) -> None:
        self.calls.append(("link_down", name))

    def backup_line(self, name: str, line: PeerLine, now: int) -> None:
        self.calls.append(("backup_line", name))
        self.lines[name] = line

    def backup_line_lost(self, name: str, now: int) -> None:
        self.calls.append(("backup_line_lost", name))
        del self.lines[name]

    def named(self, what: str) -> list[tuple[object, ...]]:
        return [call[1:] for call in self.calls if call[0] == what]

    def bodies(self, name: str) -> list[bytes]:
        """Of messages of this peer, in the order in which they came."""
        return [call[4] for call in self.calls if call[:2] == ("received", name)]  # type: ignore[misc]


class LinkedHost:
    """One server: a host with a node without a disk, and its links."""

    def __init__(
        self,
        world: LinkedHosts,
        name: str,
        *,
        key: bytes = KEY,
        listens_as: str = "",
        store_id: bytes = b"",
        cluster_id: str = "cluster-1",
        digest: str = "same",
        protocol: int = PROTOCOL_VERSION,
        wall_ahead_ms: int = 0,
        settings: LinkSettings | None = None,
    ) -> None:
        self.name = name
        dice = world.dice.fork(f"{name}{len(world.hosts)}")
        self.host = Host(name, world.clock, dice, world.history, Limits())
        world.network.listen(listens_as or name, self.host)
        self.store_id = store_id or f"store of {name}".encode().ljust(16)
        self.heard = HeardLinks()
        self.events = RecordedEvents()
        container = self.host.node.container
        container.events = self.events
        wall = WallClock()
        wall.offset_ms = WALL_START_MS + wall_ahead_ms
        self.links = PeerLinks(
            PeerIdentity(name, f"{name}:5672", self.store_id, cluster_id, digest, protocol),
            key,
            LinkSurroundings(
                HostDialler(self.host, world.network),
                SeededEntropy(dice.fork("links")),
                container.flush_list,
                self.events,
                wall,
            ),
            self.heard,
            settings,
        )
        container.peers = self.links.door
        self.host.later(LINK_TICK_US, self._tick)

    def _tick(self) -> None:
        self.links.tick(self.host.now())
        self.host.schedule_flush()
        self.host.later(LINK_TICK_US, self._tick)

    def knows(self, *names: str, **addresses: str) -> None:
        """The members, by their names, or with other addresses than `NAME:5672`."""
        members = {name: f"{name}:5672" for name in names}
        members.update(addresses)
        self.links.set_members(members, self.host.now())

    def reasons(self) -> list[str]:
        return [event.reason for event in self.events.events if event.reason]


class LinkedHosts:
    """A network of such servers."""

    def __init__(self, seed: int = 1) -> None:
        self.clock = VirtualClock()
        self.history = History(self.clock)
        self.dice = dice_of(seed)
        self.network = Network(self.clock, self.dice.fork("network"), self.history)
        self.hosts: dict[str, LinkedHost] = {}

    def add(self, name: str, host_key: str = "", /, **settings: object) -> LinkedHost:
        made = LinkedHost(self, name, **settings)  # type: ignore[arg-type]
        self.hosts[host_key or name] = made
        return made

    def trio(self) -> tuple[LinkedHost, LinkedHost, LinkedHost]:
        a, b, c = self.add("a"), self.add("b"), self.add("c")
        for server in (a, b, c):
            server.knows("a", "b", "c")
        return a, b, c

    def run(self, seconds: float = 3) -> None:
        self.clock.run(int(seconds * SECOND))
