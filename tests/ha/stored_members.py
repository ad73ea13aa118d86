"""A primary and its backups over real stores, with lines that the test pumps."""

from penstock.ha import messages
from penstock.ha.backup import Backup
from penstock.ha.backup_line import BackupLine
from penstock.ha.limits import HaLimits
from penstock.ha.primary import InSyncSet, Primary, PrimaryListener
from penstock.ha.stored_replica import StoredReplica
from tests.broker.doubles import CountingEntropy
from tests.ha.replica_doubles import Member


def small_limits() -> HaLimits:
    """Every piece and every set travels in several messages."""
    limits = HaLimits()
    limits.piece_bytes = 300
    limits.unacknowledged_bytes = 900
    limits.ranges_per_message = 2
    limits.values_per_message = 500
    return limits


class Cable(BackupLine):
    """What was sent and has not arrived."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, bytes]] = []
        self.reason = ""

    def send(self, kind: int, pieces: list[bytes]) -> None:
        self.sent.append((kind, b"".join(pieces)))

    def unsent_bytes(self) -> int:
        return 0

    def end(self, reason: str) -> None:
        self.reason = reason


class EverybodyThere(InSyncSet):
    def __init__(self, names: list[str]) -> None:
        self.names = names

    def awaited(self) -> list[str]:
        return self.names

    def has_begun(self) -> bool:
        return True


class CommittedPositions(PrimaryListener):
    def __init__(self) -> None:
        self.k = -1

    def committed(self, position: int, k: int, now: int) -> None:
        self.k = k

    def acknowledged(self, name: str, now: int) -> None:
        """Nobody changes the set."""


class Root:
    """A member that is the root."""

    def __init__(
        self,
        member: Member,
        epoch: int,
        awaited: list[str],
        heard: CommittedPositions | None = None,
    ) -> None:
        self.member = member
        self.awaited = EverybodyThere(["root", *awaited])
        self.state = StoredReplica(member.replica, member.now)
        self.state.begin_root(epoch)
        self.heard = CommittedPositions() if heard is None else heard
        self.primary = Primary(
            "root",
            epoch,
            self.state,
            self.awaited,
            self.heard,
            member.journal.position,
            member.now,
            limits=small_limits(),
        )
        member.store.operations = self.primary

    def tick(self) -> None:
        self.member.tick()
        self.member.flushed()
        self.primary.local_durable(self.member.journal.durable_position, self.member.now)
        self.primary.pump(self.member.now)


class Follower:
    """A member that is a backup of a root, by one line."""

    def __init__(self, name: str, member: Member, root: Root) -> None:
        self.name = name
        self.member = member
        self.root = root
        self.backup = Backup(StoredReplica(member.replica, member.now), CountingEntropy())
        self.down, self.up = Cable(), Cable()
        self.backup.follow(root.primary.epoch, self.up)

    def pump(self, count: int = 1_000_000) -> int:
        """Let so many messages arrive on each side; returns how many did."""
        arrived = 0
        root = self.root
        while self.up.sent and arrived < count:
            kind, octets = self.up.sent.pop(0)
            arrived += 1
            if kind == messages.JOIN:
                root.primary.joined(self.name, octets, self.down, root.member.now)
            else:
                root.primary.acked(self.name, octets, root.member.now)
        while self.down.sent and arrived < count:
            kind, octets = self.down.sent.pop(0)
            arrived += 1
            self.backup.received(kind, octets, self.member.now)
        reasons = (self.up.reason, self.down.reason)
        assert reasons == ("", ""), reasons
        return arrived

    def flushed(self) -> None:
        self.member.flushed()
        self.backup.flushed(self.member.now)

    def catch_up(self) -> None:
        """Until there is nothing to say."""
        for _ in range(1000):
            self.root.tick()
            said = self.pump()
            self.flushed()
            if not said and not self.up.sent:
                return
        raise AssertionError("they never stop")
