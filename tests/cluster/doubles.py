"""Servers of a cluster on a network and disks that a test controls, without replication."""

from dataclasses import replace

import pytest

from penstock.cluster.election import Election
from penstock.cluster.member import Member
from penstock.cluster.messages import (
    PREVOTED,
    RECORD_OK,
    ROOT_OK,
    VIEW,
    VOTED,
    ControlMessage,
    decode_message,
    encode_message,
)
from penstock.cluster.promises import Promises, format_promises, open_promises
from penstock.cluster.record import ClusterRecord, bootstrap_record
from penstock.cluster.rules import ALL_RULES, ElectionRules
from penstock.cluster.surroundings import BackupProgress, ElectionListener, PeerLines
from penstock.cluster.timing import Timing
from penstock.storage.memory_disk import MemoryDisk
from penstock.world.entropy import Entropy

CLUSTER_ID = b"the first cluster"[:16]
TIMING = Timing()
STEP_MS = 50


def store_id_of(name: str, life: int = 1) -> bytes:
    return f"{name}-{life}".encode().ljust(16, b".")


def members_of(names: str, life: int = 1) -> tuple[Member, ...]:
    """With store ids, as after the first election."""
    return tuple(
        Member(name, f"127.0.0.1:{5672 + at}", store_id_of(name, life))
        for at, name in enumerate(names)
    )


def record_of(
    epoch: int,
    version: int,
    names: str = "abc",
    in_sync: str = "abc",
    cluster_id: bytes = CLUSTER_ID,
) -> ClusterRecord:
    return ClusterRecord(epoch, version, cluster_id, members_of(names), tuple(in_sync))


def bootstrap(names: str = "abc") -> ClusterRecord:
    return bootstrap_record(CLUSTER_ID, list(members_of(names)))


def promises_of(
    name: str,
    record: ClusterRecord,
    disk: MemoryDisk | None = None,
    epoch: int = 0,
    voted_for: str = "",
) -> Promises:
    """Promises whose flushes are answered at once unless the disk says otherwise."""
    chosen = disk or MemoryDisk()
    format_promises(chosen, store_id_of(name), record)
    promises = open_promises(chosen)
    if epoch:
        promises.change(epoch, voted_for, record, 0)
        chosen.answer_flushes(0)
    return promises


class FixedEntropy(Entropy):
    """Store ids that differ, and always the same jitter: none, or nearly all."""

    def __init__(self, jitter: bytes = b"\x00") -> None:
        self.count = 0
        self._jitter = jitter

    def octets(self, count: int) -> bytes:
        self.count += 1
        return self.count.to_bytes(count, "little") if count > 4 else self._jitter * count


class RecordingLines(PeerLines):
    """What a server sent, and whom it is connected to."""

    def __init__(self, connected: list[str]) -> None:
        self.near = connected
        self.sent: list[tuple[str, ControlMessage]] = []

    def send(self, name: str, kind: int, octets: bytes) -> None:
        self.sent.append((name, decode_message(kind, octets)))

    def connected(self) -> list[str]:
        return self.near

    def take(self, kind: int) -> list[tuple[str, ControlMessage]]:
        """What was sent of one kind; forgets everything."""
        found = [(name, message) for name, message in self.sent if message.kind == kind]
        self.sent = []
        return found


class ToyProgress(BackupProgress):
    """Every backup has everything, unless a test says otherwise."""

    def __init__(self) -> None:
        self.acked: dict[str, int] = {}
        self.joined: dict[str, bytes] = {}
        self.behind: dict[str, int] = {}
        self.made_at: dict[str, int] = {}
        self.syncing: list[str] = []
        self.committed = 0
        self.last = 0

    def acked_k(self, name: str) -> int:
        return self.acked.get(name, self.last)

    def joined_store(self, name: str) -> bytes:
        return self.joined.get(name, store_id_of(name))

    def behind_since(self, name: str) -> int:
        return self.behind.get(name, -1)

    def oldest_unacked_made_at(self, name: str) -> int:
        return self.made_at.get(name, -1)

    def is_syncing(self, name: str) -> bool:
        return name in self.syncing

    def committed_k(self) -> int:
        return self.committed

    def last_k(self) -> int:
        return self.last


class RecordingOwner(ElectionListener):
    """What an election told its owner."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.roles: list[tuple[str, str]] = []
        self.is_disk_slow = False

    def won(self, epoch: int, now: int) -> None:
        self.told.append(f"won {epoch}")

    def became_active(self, now: int) -> None:
        self.told.append("active")

    def stepped_down(self, reason: str, now: int) -> None:
        self.told.append(f"stepped down: {reason}")

    def follows(self, root_name: str, epoch: int, now: int) -> None:
        self.told.append(f"follows {root_name or 'nobody'} in {epoch}")

    def in_sync_changed(self, now: int) -> None:
        """Only the state matters."""

    def disk_is_slow(self, now: int) -> bool:
        return self.is_disk_slow

    def role_changed(self, role: str, reason: str, now: int) -> None:
        self.roles.append((role, reason))

    def promises_failed(self, reason: str, now: int) -> None:
        self.told.append(f"failed: {reason}")


class OneServer:
    """An election alone: a test plays its peers."""

    def __init__(
        self,
        name: str = "a",
        record: ClusterRecord | None = None,
        rules: ElectionRules = ALL_RULES,
        connected: str = "",
        epoch: int = 0,
        at_once: bool = True,
        jitter: bytes = b"\x00",
    ) -> None:
        self.disk = MemoryDisk(at_once)
        start = bootstrap() if record is None else record
        self.promises = promises_of(name, start, self.disk, max(epoch, start.epoch))
        self.lines = RecordingLines(list(connected))
        self.owner = RecordingOwner()
        self.progress = ToyProgress()
        self.entropy = FixedEntropy(jitter)
        self.now = 1_000_000
        self.election = Election(
            name,
            self.promises,
            self.lines,
            self.owner,
            self.progress,
            TIMING,
            self.entropy,
            self.now,
            rules,
        )

    def hear(
        self,
        name: str,
        kind: int,
        epoch: int,
        record: ClusterRecord | None = None,
        *,
        life: int = 1,
        sent_at: int = 0,
        accepted: tuple[int, int] = (0, 0),
        heir: str = "",
        cluster_id: bytes = b"",
        is_active: bool = False,
        reason: str = "",
    ) -> None:
        chosen = cluster_id or self.election.record.cluster_id
        message = ControlMessage(kind, chosen, epoch, record)
        message.sent_at = sent_at
        message.accepted = accepted
        message.heir = heir
        message.is_active = is_active
        message.reason = reason
        octets = encode_message(message)
        self.election.received(name, store_id_of(name, life), kind, octets, self.now)

    def wait(self, milliseconds: int, *, ticks: bool = True) -> None:
        """Time passes, with ticks or without any."""
        end = self.now + milliseconds
        while ticks and self.now + STEP_MS <= end:
            self.now += STEP_MS
            self.election.tick(self.now)
        self.now = end

    def sent(self, kind: int) -> list[tuple[str, ControlMessage]]:
        return self.lines.take(kind)


class Host(PeerLines):
    """One server of a `Network`."""

    def __init__(self, network: "Network", name: str, record: ClusterRecord, life: int) -> None:
        self.network = network
        self.name = name
        self.store_id = store_id_of(name, life)
        self.disk = MemoryDisk()
        format_promises(self.disk, self.store_id, record)
        open_promises(self.disk).change(record.epoch, "", record, 0)
        self.is_up = False
        self.start()

    def start(self) -> None:
        self.is_up = True
        self.owner = RecordingOwner()
        self.progress = ToyProgress()
        self.election = Election(
            self.name,
            open_promises(self.disk),
            self,
            self.owner,
            self.progress,
            TIMING,
            FixedEntropy(),
            self.network.now,
        )
        self.election.backup_is(is_syncing=False, is_synced=True, now=self.network.now)

    def send(self, name: str, kind: int, octets: bytes) -> None:
        self.network.post(self.name, name, kind, octets)

    def connected(self) -> list[str]:
        return [other for other in self.network.hosts if self.network.is_linked(self.name, other)]


class Network:
    """Servers that hear one another a moment later."""

    def __init__(self, names: str = "abc", record: ClusterRecord | None = None) -> None:
        self.now = 1_000_000
        self.cut: set[str] = set()
        self.hosts: dict[str, Host] = {}
        self._posted: list[tuple[str, bytes, str, int, bytes]] = []
        for name in names:
            self.hosts[name] = Host(self, name, record or bootstrap(names), 1)

    def is_linked(self, one: str, other: str) -> bool:
        if one == other or other not in self.hosts or one in self.cut or other in self.cut:
            return False
        return self.hosts[one].is_up and self.hosts[other].is_up

    def post(self, sender: str, name: str, kind: int, octets: bytes) -> None:
        if self.is_linked(sender, name):
            self._posted.append((sender, self.hosts[sender].store_id, name, kind, octets))

    def run(self, milliseconds: int) -> None:
        end = self.now + milliseconds
        while self.now < end:
            self.now += STEP_MS
            for host in self.hosts.values():
                if host.is_up:
                    host.election.tick(self.now)
            while self._posted:
                sender, store_id, name, kind, octets = self._posted.pop(0)
                if self.is_linked(sender, name):
                    election = self.hosts[name].election
                    election.received(sender, store_id, kind, octets, self.now)

    def kill(self, name: str) -> None:
        self.hosts[name].is_up = False
        for host in self.hosts.values():
            if host.is_up:
                host.election.link_changed(self.now)

    def active(self) -> list[str]:
        """Who may serve at this moment."""
        return [
            name
            for name, host in self.hosts.items()
            if host.is_up and host.election.may_serve(self.now)
        ]


# One server, brought into a role by messages of peers that the test plays.

ON_AND_OFF = pytest.mark.parametrize("is_on", [True, False])


def rules_with(name: str, is_on: bool) -> ElectionRules:
    return replace(ALL_RULES, **{name: is_on})


def quiet(server: OneServer) -> OneServer:
    """Its start is so long ago that it may vote, and it has not campaigned meanwhile."""
    server.wait(TIMING.grace_ms, ticks=False)
    return server


def names(sent: list[tuple[str, ControlMessage]]) -> list[str]:
    return [name for name, _ in sent]


def candidate(server: OneServer, voters: str = "b") -> OneServer:
    """It campaigns in the next epoch, with these prevotes."""
    server.wait(TIMING.elect_ms + TIMING.stagger_ms * 3)
    epoch = server.election.epoch + 1
    for name in server.lines.near:
        # It is heard, and says nothing of interest.
        server.hear(name, VIEW, server.election.epoch, server.election.record)
    for name in voters:
        server.hear(name, PREVOTED, epoch, server.election.record)
    server.wait(TIMING.unanimous_ms)
    assert server.election.role == "candidate"
    return server


def recovering(server: OneServer, voters: str = "b") -> OneServer:
    """Elected by these, with its first record not accepted by anybody else."""
    record = candidate(server, voters).election.record
    for name in voters:
        server.hear(name, VOTED, server.election.epoch, record)
    assert server.election.role in ("recovering", "active")
    return server


def active(server: OneServer, voters: str = "b") -> OneServer:
    """Elected by these, with a heartbeat answered and its first record accepted by them."""
    recovering(server, voters)
    answer(server, voters)
    order = server.election.record.order()
    for name in voters:
        server.hear(name, RECORD_OK, server.election.epoch, accepted=order)
    assert server.election.role == "active"
    return server


def answer(server: OneServer, names: str) -> None:
    """Peers answer a heartbeat that is sent now."""
    for name in names:
        server.hear(name, ROOT_OK, server.election.epoch, sent_at=server.now)
