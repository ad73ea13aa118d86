"""All links between this server and its peers: each server is a client of every other one.

Between two servers there are two connections, one dialled by each. What a server sends on its own
initiative travels on the link that it has dialled; what a root streams to a backup travels on the
link that the backup has dialled. So a long operation never delays a heartbeat of the root.

Invariants
- A peer has at most one link that it dialled, and at most one that we did. A newer link of the same
  server replaces the older one; a server with another data directory is refused while that lives.
- `link_down` and `backup_line_lost` come exactly once for each link that was announced, and nothing
  that was received on it is passed on afterwards. The late end of an old link does not touch the
  new one.
- A link that has ended is dialled again after a wait that grows up to a limit.
"""

from typing import Final

from penstock.broker.events import Event, EventKind, EventLog, Party, Severity
from penstock.broker.timers import WallClock
from penstock.cluster.inbound_link import InboundLink
from penstock.cluster.link_line import LinkLine
from penstock.cluster.link_output import UNSENT_BYTES_MAX
from penstock.cluster.link_owner import LinkOwner
from penstock.cluster.links_listener import LinksListener, PeerLine
from penstock.cluster.peer_address import dial_address
from penstock.cluster.peer_identity import PeerIdentity, Presented, why_refused
from penstock.cluster.peer_link import LinkDial, LinkPlan, PeerLink
from penstock.dialects.peer import Peer
from penstock.dialects.peers import Peers, PeerSession
from penstock.formats.peer_limits import STREAM_BYTES_MAX
from penstock.formats.scram_keys import ITERATIONS_MIN, ScramKeys, derive
from penstock.wire.amqp091.connection import Connection as WireConnection
from penstock.wire.amqp091.limits import Limits
from penstock.wire.outgoing import Outgoing
from penstock.world.entropy import Entropy
from penstock.world.network import Dialler

# The wait before a link is dialled again doubles from the first number to the second. A peer that
# restarts is back in a second or two, and an election needs its links; a peer that is down costs
# each server one attempt every two seconds.
DIAL_AGAIN_MS_MIN: Final = 50
DIAL_AGAIN_MS_MAX: Final = 2_000
# After this many doublings the second number is reached in any case.
_DOUBLINGS_MAX: Final = 16
# Seconds between heartbeats; a silent link is ended after three of them. Elections do not wait for
# this: it ends connections whose other machine has lost its power.
HEARTBEAT_SECONDS: Final = 2
# Large, because most of a link's octets are operations, and a message of one frame is not joined. What
# must not wait for a frame travels on the other link.
FRAME_BYTES_MAX: Final = 4 * 1024 * 1024
_NONCE_OCTETS: Final = 18
_SALT_OCTETS: Final = 16
_JITTER_STEPS: Final = 1 << 16


def peer_limits(heartbeat_seconds: int = HEARTBEAT_SECONDS) -> Limits:
    return Limits(
        frame_max=FRAME_BYTES_MAX,
        channel_max=1,
        heartbeat_seconds=heartbeat_seconds,
        message_bytes_max=STREAM_BYTES_MAX,
        # One content at a time, with its method and header.
        assembly_bytes_max=STREAM_BYTES_MAX + FRAME_BYTES_MAX,
    )


class LinkSettings:
    """How links are made; simulations shorten the times and make buffers small."""

    def __init__(
        self,
        heartbeat_seconds: int = HEARTBEAT_SECONDS,
        dial_again_ms_min: int = DIAL_AGAIN_MS_MIN,
        dial_again_ms_max: int = DIAL_AGAIN_MS_MAX,
        unsent_bytes_max: int = UNSENT_BYTES_MAX,
        allows_plain: bool = False,
    ) -> None:
        assert 0 < dial_again_ms_min <= dial_again_ms_max
        self.limits: Limits = peer_limits(heartbeat_seconds)
        self.dial_again_ms_min: int = dial_again_ms_min
        self.dial_again_ms_max: int = dial_again_ms_max
        self.unsent_bytes_max: int = unsent_bytes_max
        # Whether peers on other machines may connect without TLS.
        self.allows_plain: bool = allows_plain


class LinkSurroundings:
    """What links share with the rest of the node."""

    def __init__(
        self,
        dialler: Dialler,
        entropy: Entropy,
        flush_list: list[Outgoing],
        events: EventLog,
        wall: WallClock,
    ) -> None:
        self.dialler: Dialler = dialler
        self.entropy: Entropy = entropy
        self.flush_list: list[Outgoing] = flush_list
        self.events: EventLog = events
        self.wall: WallClock = wall


class DialledPeer:
    """One other member, which is dialled again and again. Held by `PeerLinks`."""

    def __init__(self, name: str, address: str, now: int) -> None:
        self.name: str = name
        self.address: str = address
        # The attempt or link; None while it waits for `due`.
        self.link: PeerLink | None = None
        self.due: int = now
        self.failed_count: int = 0
        self.opened_at: int = 0
        # Whether the listener was told that it is up.
        self.is_announced: bool = False
        # Why the last attempt failed: the same reason is not a warning again.
        self.last_reason: str = ""


class BackupLink:
    """The link that one peer has dialled. Held by `PeerLinks`."""

    def __init__(self, line: LinkLine, presented: Presented, host: str) -> None:
        self.line: LinkLine = line
        self.presented: Presented = presented
        self.host: str = host


class PeerLinks(LinkOwner):
    """Held by the node of a cluster member. `set_members` begins to dial; `door` is for the
    dialect's container.
    """

    def __init__(
        self,
        own: PeerIdentity,
        key: bytes,
        surroundings: LinkSurroundings,
        listener: LinksListener,
        settings: LinkSettings | None = None,
    ) -> None:
        self._own: PeerIdentity = own
        # In hexadecimal, because passwords are text. It must not be the key's SHA-256, which is told
        # to clients.
        self._key: str = key.hex()
        self._around: LinkSurroundings = surroundings
        self._listener: LinksListener = listener
        self._settings: LinkSettings = settings or LinkSettings()
        self._members: dict[str, str] = {}
        self._dialled: dict[str, DialledPeer] = {}
        self._by_number: dict[int, DialledPeer] = {}
        self._attempt_count: int = 0
        self._backups: dict[str, BackupLink] = {}
        # Names whose inbound link was ended by a call of ours; the listener is told with the next
        # tick, not in the middle of that call.
        self._untold_backups: list[str] = []
        self._untold_links: list[str] = []
        self._is_stopped: bool = False
        salt = surroundings.entropy.octets(_SALT_OCTETS)
        self.door: PeerDoor = PeerDoor(
            self, derive(self._key, salt, ITERATIONS_MIN), self._settings
        )

    # Calls from the node.

    def set_members(self, addresses: dict[str, str], now: int) -> None:
        """The addresses of all members by their names, this server's own included. Links to servers
        that are not members any more are ended.
        """
        self._members = dict(addresses)
        for name in list(self._dialled):
            peer = self._dialled[name]
            if addresses.get(name, "") != peer.address:
                del self._dialled[name]
                self._give_up(peer, "the member was removed, or has another address", now)
        for name, address in addresses.items():
            if name != self._own.name and name not in self._dialled:
                self._dialled[name] = DialledPeer(name, address, now)
        for name in list(self._backups):
            if name not in addresses:
                self._backups[name].line.end(f"'{name}' is not a member of the cluster any more")
        self._tell_untold(now)

    def tick(self, now: int) -> None:
        """A few times a second: dial, heartbeats, time-outs, and what is still to be told."""
        self._tell_untold(now)
        for peer in list(self._dialled.values()):
            link = peer.link
            if link is not None:
                link.tick(now)
            elif now >= peer.due and not self._is_stopped:
                self._dial(peer, now)

    def stop(self, now: int) -> None:
        """This server stops: links are closed in order, and none is dialled again."""
        self._is_stopped = True
        for peer in list(self._dialled.values()):
            if peer.link is not None:
                peer.link.stop(now)

    def send(self, name: str, kind: int, octets: bytes) -> None:
        """On our own link to this peer; lost if there is none, as any message may be."""
        line = self.line_to(name)
        if line is not None:
            line.send(kind, [octets])

    def connected(self) -> list[str]:
        """Peers to which our own link is open."""
        return [name for name in self._dialled if self.line_to(name) is not None]

    def line_to(self, name: str) -> PeerLine | None:
        """Our own link to this peer."""
        peer = self._dialled.get(name)
        if peer is None or peer.link is None or not peer.is_announced:
            return None
        line = peer.link.line
        return line if line is not None and line.is_open else None

    # Dialling.

    def _dial(self, peer: DialledPeer, now: int) -> None:
        self._attempt_count += 1
        number = self._attempt_count
        settings = self._settings
        plan = LinkPlan(
            peer.name,
            self._own.name,
            self._key,
            self._around.entropy.octets(_NONCE_OCTETS).hex(),
            settings.limits,
            self._around.flush_list,
            settings.unsent_bytes_max,
        )
        link = PeerLink(self, number, plan, now)
        peer.link = link
        self._by_number[number] = peer
        try:
            address = dial_address(peer.address)
        except ValueError as error:
            link.lost(str(error), now)
            return
        self._around.dialler.dial(address, LinkDial(link))

    def _give_up(self, peer: DialledPeer, reason: str, now: int) -> None:
        if peer.link is not None:
            peer.link.end(reason, now)

    def outbound_opened(self, number: int, line: LinkLine, presented: Presented, now: int) -> None:
        peer = self._by_number[number]
        peer.opened_at = now
        peer.last_reason = ""
        peer.is_announced = True
        self._note(EventKind.PEER_LINK_OPENED, Severity.INFO, peer.name, peer.address, "", "own")
        self._listener.link_up(peer.name, now)

    def outbound_ended(self, number: int, reason: str, is_ours: bool, now: int) -> None:
        peer = self._by_number.pop(number)
        peer.link = None
        settings = self._settings
        if peer.is_announced and now - peer.opened_at >= settings.dial_again_ms_max:
            # A link that is ended as soon as it is open is dialled no sooner than one that is refused.
            peer.failed_count = 0
        doublings = min(peer.failed_count, _DOUBLINGS_MAX)
        ceiling = min(settings.dial_again_ms_max, settings.dial_again_ms_min << doublings)
        dice = int.from_bytes(self._around.entropy.octets(2), "big")
        # Between half of it and all: two servers that lost one another do not dial in step.
        peer.due = now + ceiling // 2 + (ceiling - ceiling // 2) * dice // _JITTER_STEPS
        peer.failed_count += 1
        is_news = peer.is_announced or reason != peer.last_reason
        peer.last_reason = reason
        severity = Severity.WARNING if is_news and not self._is_stopped else Severity.DEBUG
        self._note(EventKind.PEER_LINK_CLOSED, severity, peer.name, peer.address, reason, "own")
        if peer.is_announced:
            peer.is_announced = False
            self._untold_links.append(peer.name)
            if not is_ours:
                self._tell_untold(now)

    # Links that peers have dialled.

    def opened(self, wire: WireConnection, peer: Peer) -> PeerSession:
        return InboundLink(self, wire, peer, self._settings.unsent_bytes_max)

    def inbound_opened(self, line: LinkLine, presented: Presented, host: str, now: int) -> None:
        name = presented.name
        older = self._backups.get(name)
        if older is not None:
            older.line.end("a newer link of the same server replaces this one")
        self._tell_untold(now)
        self._backups[name] = BackupLink(line, presented, host)
        self._note(EventKind.PEER_LINK_OPENED, Severity.INFO, name, host, "", "the peer")
        self._listener.backup_line(name, line, now)

    def inbound_refused(self, presented: Presented, host: str, reason: str) -> None:
        self._note(
            EventKind.PEER_LINK_REFUSED, Severity.WARNING, presented.name, host, reason, "the peer"
        )

    def inbound_ended(self, line: LinkLine, presented: Presented, reason: str, now: int) -> None:
        name = presented.name
        link = self._backups.get(name)
        if link is None or link.line is not line:
            # The late end of an older one, which was told when it was replaced.
            return
        del self._backups[name]
        severity = Severity.DEBUG if self._is_stopped else Severity.WARNING
        self._note(EventKind.PEER_LINK_CLOSED, severity, name, link.host, reason, "the peer")
        self._untold_backups.append(name)
        if not line.is_ended_by_us:
            self._tell_untold(now)

    # What both kinds ask.

    def presentation(self, wanted: str, now: int) -> dict[str, object]:
        return self._own.table(wanted, self._around.wall.at(now))

    def why_refused(self, presented: Presented, expected: str, now: int) -> str:
        wall = self._around.wall.at(now)
        reason = why_refused(self._own, presented, self._members, expected, wall)
        return reason or self._why_two(presented)

    def _why_two(self, presented: Presented) -> str:
        """Whether a server with the same name and another data directory is connected."""
        known: list[Presented] = []
        backup = self._backups.get(presented.name)
        if backup is not None:
            known.append(backup.presented)
        peer = self._dialled.get(presented.name)
        if peer is not None and peer.link is not None and peer.link.is_open():
            if peer.link.presented is not None:
                known.append(peer.link.presented)
        for other in known:
            if other.store_id != presented.store_id:
                return (
                    f"two servers are named '{presented.name}': another one with that name is "
                    "connected, with a different data directory"
                )
        return ""

    def message_received(
        self, name: str, store_id: bytes, kind: int, octets: bytes, now: int
    ) -> None:
        self._listener.received(name, store_id, kind, octets, now)

    def _tell_untold(self, now: int) -> None:
        while self._untold_links:
            self._listener.link_down(self._untold_links.pop(0), now)
        while self._untold_backups:
            self._listener.backup_line_lost(self._untold_backups.pop(0), now)

    def _note(
        self,
        kind: EventKind,
        severity: Severity,
        name: str,
        address: str,
        reason: str,
        dialled_by: str,
    ) -> None:
        facts: dict[str, object] = {"server": name, "address": address, "dialled_by": dialled_by}
        self._around.events.record(Event(kind, severity, Party(), reason, facts))


class PeerDoor(Peers):
    """The links as the AMQP 0-9-1 dialect sees them."""

    def __init__(self, links: PeerLinks, keys: ScramKeys, settings: LinkSettings) -> None:
        self._links: PeerLinks = links
        self._keys: ScramKeys = keys
        self._settings: LinkSettings = settings

    def keys(self) -> ScramKeys:
        return self._keys

    def limits(self) -> Limits:
        return self._settings.limits

    def why_refused(self, peer: Peer) -> str:
        if peer.is_loopback or peer.encryption is not None or self._settings.allows_plain:
            return ""
        return "a link between servers on different machines needs TLS"

    def opened(self, wire: WireConnection, peer: Peer, now: int) -> PeerSession:
        return self._links.opened(wire, peer)
