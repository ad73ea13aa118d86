"""What replication says of itself, for operators: each server, and each queue on each backup.

States are the protocol's: joining, catchup, ready on a backup; recovering, active on the primary. Only the
primary knows the others; a backup tells of itself what it lacks.
"""

from dataclasses import dataclass
from typing import Final

from penstock.broker.queues.message_queue import MessageQueue
from penstock.ha.message_states import ReplicationState
from penstock.ha.primary import Primary
from penstock.ha.queue_guard import NOT_GUARDED, waiting_ticks
from penstock.ha.remote_backup import RemoteBackup
from penstock.node.cluster_member import ClusterMember
from penstock.node.in_sync_history import InSyncChange

NOT_KNOWN: Final = -1


@dataclass(frozen=True, slots=True)
class BackupStatus:
    """One backup as the primary sees it."""

    name: str
    state: str
    in_sync: bool
    # Operations: the last that was sent and acknowledged, and the first whose completion waits for
    # this backup; -1 for none.
    sent: int
    acknowledged: int
    first_guarded: int
    lag_operations: int
    lag_bytes: int
    # Messages of a SYNC that were not sent yet.
    missing_messages: int


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """One queue on one server."""

    vhost: str
    name: str
    server: str
    state: str
    # -1 while nobody waits for that server; on a backup it is not known.
    first_guarded: int
    # Messages whose completion waits for that server, and those of them that were sent to it.
    delayed: int
    delayed_sent: int
    # Messages that it lacks and is being sent.
    missing: int


@dataclass(frozen=True, slots=True)
class HaStatus:
    """Of one moment."""

    name: str
    role: str
    state: str
    epoch: int
    # The last operation of the epoch and the last that is committed; -1 where it is not known.
    last: int
    committed: int
    # Messages that this server still lacks of a SYNC.
    missing_messages: int
    # Why nothing can be committed at the moment; empty if it can.
    waiting: str
    backups: tuple[BackupStatus, ...]
    history: tuple[InSyncChange, ...]


def ha_status(member: ClusterMember, now: int) -> HaStatus:
    primary = member.primary
    status = member.status(now)
    backups: list[BackupStatus] = []
    if primary is not None:
        in_sync = [one.name for one in status.members if one.in_sync]
        backups = [_backup(primary, one, one.name in in_sync) for one in primary.backups()]
    missing = sum([ids.count() for ids in member.backup.missing().values()])
    return HaStatus(
        status.name,
        "backup" if primary is None else "primary",
        status.role,
        status.epoch,
        NOT_KNOWN if primary is None else primary.last_k,
        status.committed,
        missing,
        member.why_too_few,
        tuple(backups),
        tuple(member.history.changes()),
    )


def _backup(primary: Primary, backup: RemoteBackup, in_sync: bool) -> BackupStatus:
    return BackupStatus(
        backup.name,
        backup.state.value,
        in_sync,
        backup.sent_k,
        backup.acked_k,
        backup.first_guarded_k,
        primary.last_k - max(backup.acked_k, 0),
        primary.lag_bytes(backup.name),
        backup.missing_total(),
    )


def queue_statuses(member: ClusterMember, vhost: str, queue: MessageQueue) -> list[QueueStatus]:
    """Of one queue; none for one that is not replicated."""
    if not queue.number:
        return []
    primary = member.primary
    if primary is None:
        missing = member.backup.missing().get(queue.number)
        lacks = 0 if missing is None else missing.count()
        own = member.role()
        return [QueueStatus(vhost, queue.name, member.name, own, NOT_GUARDED, 0, 0, lacks)]
    found = [QueueStatus(vhost, queue.name, member.name, member.role(), NOT_GUARDED, 0, 0, 0)]
    ticks = waiting_ticks(queue)
    for backup in primary.backups():
        guard = primary.guard_of(backup, queue.number, ticks)
        found.append(
            QueueStatus(
                vhost,
                queue.name,
                backup.name,
                backup.state.value,
                guard.first_guarded,
                guard.delayed_count(),
                guard.count(ReplicationState.DELAYED_SENT),
                backup.missing_count(queue.number),
            )
        )
    return found
