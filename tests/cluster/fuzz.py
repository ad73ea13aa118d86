"""A seeded fuzzer of peer links: a valid conversation between two servers, damaged.

Each input is one side of a recorded conversation, mutated, cut into pieces and fed to the other
side: a whole node for what a peer dials, the dialled link for what it answers. Neither may raise;
every link that was announced is taken back exactly once; and the node serves the next input as if
nothing had happened.

Longer runs: `python -m tests.cluster.fuzz SEED COUNT`.
"""

from __future__ import annotations

from random import Random

from penstock.broker.events import EventLog
from penstock.broker.timers import WallClock
from penstock.cluster.links import LinkSurroundings, PeerLinks
from penstock.cluster.peer_identity import PeerIdentity
from penstock.formats.amqp091_frames import METHOD_FRAME, PROTOCOL_HEADER, encode_frame
from penstock.node.configuration import NodeConfiguration
from penstock.node.node import Node
from penstock.wire.amqp091.methods_generated import (
    ChannelClose,
    ChannelOpen,
    ConnectionClose,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    Method,
)
from penstock.wire.amqp091.reply_codes_generated import REPLY_NAMES
from penstock.wire.amqp091.states import Role
from penstock.world.entropy import Entropy
from penstock.world.network import DialAddress, Dialler, DialListener
from tests.cluster.linked_hosts import HeardLinks
from tests.dialects.amqp10.doubles import KeptTransport, PromptLogins
from tests.wire.damage import Recorded, check_one, main, mutate, rearrange
from tests.wire.doubles import decode_frames
from tests.wire.fuzz import change_channel

KEY = b"key"
MEMBERS = {"a": "a:1", "b": "b:1"}
CONTROL = 20
STREAM = 5
ATTEMPT_MS = 100_000


class SameEntropy(Entropy):
    """Nonces and salts are always the same, so that a recorded login is good again."""

    def octets(self, count: int) -> bytes:
        return bytes(range(count))


class KeptDialler(Dialler):
    """Keeps the listeners; the test connects them."""

    def __init__(self) -> None:
        self.listeners: list[DialListener] = []

    def dial(self, address: DialAddress, listener: DialListener) -> None:
        self.listeners.append(listener)


class Server:
    """A node with links, and no world."""

    def __init__(self, name: str) -> None:
        self.now = 1
        entropy = SameEntropy()
        self.node = Node(NodeConfiguration("1", "fuzz", name), entropy, PromptLogins(), 1, 1)
        self.heard = HeardLinks()
        self.dialler = KeptDialler()
        self.wall = WallClock()
        container = self.node.container
        surroundings = LinkSurroundings(
            self.dialler, entropy, container.flush_list, EventLog(), self.wall
        )
        own = PeerIdentity(name, MEMBERS[name], name.encode() * 16, "c", "d")
        self.links = PeerLinks(own, KEY, surroundings, self.heard)
        container.peers = self.links.door
        self.links.set_members(MEMBERS, self.now)

    def flush(self) -> None:
        while self.node.has_work():
            self.node.flush(self.now)

    def pass_time(self) -> None:
        """For the next attempt; the wall clock stands still, so that the recording fits."""
        self.now += ATTEMPT_MS
        self.wall.offset_ms = -self.now

    def dial(self) -> tuple[DialListener, KeptTransport]:
        self.pass_time()
        self.dialler.listeners.clear()
        self.links.tick(self.now)
        [listener] = self.dialler.listeners
        transport = KeptTransport()
        listener.connected(transport, self.now)
        self.flush()
        return listener, transport

    def check_at_rest(self) -> None:
        self.links.tick(self.now)
        for began, ended in (("link_up", "link_down"), ("backup_line", "backup_line_lost")):
            assert len(self.heard.named(began)) == len(self.heard.named(ended)), self.heard.calls
        assert not self.heard.lines and not self.links.connected() and not self.node.connections
        self.heard.calls.clear()


def record() -> list[Recorded[Role]]:
    """Both sides of a link from its begin to its end."""
    a, b = Server("a"), Server("b")
    listener, near = a.dial()
    b.pass_time()
    far = KeptTransport()
    connection = b.node.connected(far, "127.0.0.1", True, b.now)
    assert connection is not None
    said = {"a": b"", "b": b""}
    sizes = [0, 0]

    def carry() -> None:
        while near.written or far.written:
            octets = near.take()
            said["a"] += octets
            connection.received(octets, b.now)
            b.flush()
            octets = far.take()
            said["b"] += octets
            listener.received(octets, a.now)
            a.flush()

    carry()
    sizes = [len(said["a"]), len(said["b"])]
    assert a.links.connected() == ["b"] and set(b.heard.lines) == {"a"}
    for size in (0, 9, 3_000):
        a.links.send("b", CONTROL, b"c" * size)
        b.heard.lines["a"].send(STREAM, [b"s" * size, b"t"])
        line = a.links.line_to("b")
        assert line is not None
        line.send(1, [b"j" * size])
        a.flush()
        b.flush()
        carry()
    a.links.stop(a.now)
    a.flush()
    carry()
    assert len(b.heard.bodies("a")) == 6 and len(a.heard.bodies("b")) == 3
    return [
        Recorded(Role.SERVER, said["a"], sizes[0]),
        Recorded(Role.CLIENT, said["b"], sizes[1]),
    ]


def swapped(random: Random, data: bytes) -> bytes:
    """Whole frames moved, doubled, dropped or put on another channel."""
    position = 8 if data.startswith(b"AMQP") else 0
    head, frames = data[:position], []
    while position < len(data):
        size = 8 + int.from_bytes(data[position + 3 : position + 7], "big")
        frames.append(data[position : position + size])
        position += size
    rearrange(random, frames, change_channel, 1)
    return head + b"".join(frames)


def client_login() -> bytes:
    """Of an ordinary client, with channel 1 open."""
    wanted: list[tuple[int, Method]] = [
        (0, ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "en_US")),
        (0, ConnectionTuneOk(10, 131_072, 0)),
        (0, ConnectionOpen("/")),
        (1, ChannelOpen()),
    ]
    frames = [encode_frame(METHOD_FRAME, channel, method.encode()) for channel, method in wanted]
    return PROTOCOL_HEADER + b"".join(frames)


class Fuzzer:
    """Two servers that hear damaged conversations, one after the other."""

    def __init__(self) -> None:
        self.recordings = record()
        self._a, self._b = Server("a"), Server("b")

    def check(self, seed: int, number: int) -> None:
        check_one("tests.cluster.fuzz", seed, number, self.recordings, self._attempt)

    def as_client(self, data: bytes, random: Random) -> list[Method]:
        """An ordinary client says what a peer says behind its login; returns how it is closed. Nothing
        of it may reach the cluster.
        """
        server = self._b
        server.pass_time()
        transport = KeptTransport()
        connection = server.node.connected(transport, "127.0.0.1", True, server.now)
        assert connection is not None
        for octets in [client_login(), *pieces(random, data)]:
            connection.received(octets, server.now)
            server.flush()
        methods = [method for _, method in decode_frames(transport.take())]
        server.node.lost(connection, server.now)
        server.flush()
        assert not server.heard.calls
        server.check_at_rest()
        return [one for one in methods if isinstance(one, (ChannelClose, ConnectionClose))]

    def _attempt(self, random: Random, recorded: Recorded[Role], other: bytes) -> None:
        if random.random() < 0.1:
            behind = Recorded(recorded.listener_role, recorded.said[recorded.handshake_size :], 0)
            for close in self.as_client(mutate(random, behind, other), random):
                assert isinstance(close, (ChannelClose, ConnectionClose))
                assert close.reply_code in REPLY_NAMES, close
            return
        if random.random() < 0.2:
            data = swapped(random, recorded.said)
        else:
            data = mutate(random, recorded, other)
        self.hear(random, recorded.listener_role, data)

    def hear(self, random: Random, role: Role, data: bytes) -> None:
        if role is Role.SERVER:
            self._accepted(random, data)
        else:
            self._dialled(random, data)

    def _accepted(self, random: Random, data: bytes) -> None:
        server = self._b
        server.pass_time()
        transport = KeptTransport()
        connection = server.node.connected(transport, "127.0.0.1", True, server.now)
        assert connection is not None
        for octets in pieces(random, data):
            connection.received(octets, server.now)
            server.flush()
        self._check_said(server, transport)
        server.node.lost(connection, server.now)
        # A refused login may wait for its answer.
        server.node.fire_due(server.now + ATTEMPT_MS)
        server.flush()
        server.check_at_rest()

    def _dialled(self, random: Random, data: bytes) -> None:
        server = self._a
        listener, transport = server.dial()
        for octets in pieces(random, data):
            listener.received(octets, server.now)
            server.flush()
        self._check_said(server, transport)
        listener.lost("", server.now)
        server.flush()
        server.check_at_rest()

    def _check_said(self, server: Server, transport: KeptTransport) -> None:
        for _, method in decode_frames(transport.take()):
            if isinstance(method, (ChannelClose, ConnectionClose)):
                assert method.reply_code in REPLY_NAMES, method
        self.last_heard = list(server.heard.calls)


def pieces(random: Random, data: bytes) -> list[bytes]:
    largest = random.choice((3, 60, 700, 4000, 1 << 20))
    found: list[bytes] = []
    position = 0
    while position < len(data):
        size = random.randint(1, largest)
        found.append(data[position : position + size])
        position += size
    return found


def fuzz(seed: int, count: int) -> None:
    fuzzer = Fuzzer()
    for number in range(count):
        fuzzer.check(seed, number)


if __name__ == "__main__":
    main(fuzz)
