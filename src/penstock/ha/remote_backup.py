"""One backup as the primary sees it: its line, what it was sent, what it has acknowledged.

The line changes with every JOIN; acknowledgements stay valid for the epoch, because a backup keeps
its state until a SYNC is complete. Ranges of the ids that a backup lacks are held here, bodies are
not: these are read when they are sent.
"""

from enum import Enum

from penstock.formats.peer_limits import BadPeerMessage
from penstock.formats.replication_id import first_id
from penstock.ha import messages
from penstock.ha.backup_line import BackupLine
from penstock.ha.id_ranges import IdSets
from penstock.ha.kept_operations import KeptOperations
from penstock.ha.limits import RANGES_MAX, HaLimits
from penstock.ha.piece_pace import PiecePace
from penstock.ha.queue_guard import NOT_GUARDED
from penstock.ha.queue_snapshot import QueueSnapshot, SnapshotsReader, encode_in_parts
from penstock.ha.replicated_state import ReplicatedState
from penstock.ha.replicating_subscription import ReplicatingSubscription


class BackupState(Enum):
    """The value is the protocol's name."""

    # It has not exchanged snapshots over its present line.
    JOINING = "joining"
    CATCHUP = "catchup"
    READY = "ready"


class RemoteBackup:
    """Held by a `Primary`, one for each server that has joined in this epoch."""

    def __init__(self, name: str, now: int) -> None:
        self.name: str = name
        # Progress in this epoch. -1: it has not synced.
        self.acked_k: int = -1
        # Since when it has been behind without progress. -1: it is not behind.
        self.behind_since: int = now
        # The first operation whose completion waits for it, or NOT_GUARDED; and by queue number the
        # first position. Of queues that are not there, every position of the epoch is guarded.
        self.first_guarded_k: int = NOT_GUARDED
        self._first_guarded: dict[int, int] = {}
        # The line and the JOIN that came over it.
        self.line: BackupLine | None = None
        self._join: messages.JoinHead | None = None
        self._reader: SnapshotsReader = SnapshotsReader(RANGES_MAX)
        self.is_answered: bool = False
        # What follows: the answer, operations behind `sent_k`, pieces.
        self.sent_k: int = -1
        self._answer: list[bytes] = []
        self._answered: int = 0
        # k of the SYNC that is under way; -1: none.
        self._sync_k: int = -1
        # Of that SYNC, those that have something to send; by queue number, descending.
        self._subscriptions: list[ReplicatingSubscription] = []
        self._piece_bytes_sent: int = 0
        self._piece_bytes_acked: int = 0

    @property
    def is_syncing(self) -> bool:
        return self._sync_k >= 0

    @property
    def state(self) -> BackupState:
        if self.line is None or not self.is_answered:
            return BackupState.JOINING
        return BackupState.READY if self.is_ready else BackupState.CATCHUP

    @property
    def is_ready(self) -> bool:
        """Whether all messages are safe or delayed: it has reached the position before the first
        guarded one, and everything before that is safe. Neither needs a next message, nor any queue.
        """
        if self.first_guarded_k < 0 or self.is_syncing:
            return False
        return self.acked_k >= max(self.first_guarded_k - 1, 0)

    def guard(self, k: int, positions: dict[int, int]) -> None:
        """Completion waits for it, from this operation on."""
        self.first_guarded_k = k
        self._first_guarded = positions

    def let_go(self) -> None:
        """Nobody waits for it any more: it has left the in-sync set."""
        self.first_guarded_k = NOT_GUARDED
        self._first_guarded = {}

    def first_guarded(self, number: int, epoch: int) -> int:
        """The first guarded position of a queue, or NOT_GUARDED."""
        if self.first_guarded_k < 0:
            return NOT_GUARDED
        return self._first_guarded.get(number, first_id(epoch))

    def missing_count(self, number: int) -> int:
        """Messages of a queue that a SYNC has not sent yet."""
        for subscription in self._subscriptions:
            if subscription.number == number:
                return subscription.missing_count()
        return 0

    def missing_total(self) -> int:
        """Of all queues."""
        return sum([subscription.missing_count() for subscription in self._subscriptions])

    def line_lost(self) -> None:
        self.line = None
        self._join = None
        self._reader = SnapshotsReader(RANGES_MAX)
        self.is_answered = False
        self.sent_k = -1
        self._answer = []
        self._answered = 0
        self._sync_k = -1
        self._subscriptions = []
        self._piece_bytes_sent = 0
        self._piece_bytes_acked = 0

    def end_line(self, reason: str) -> None:
        line = self.line
        self.line_lost()
        if line is not None:
            line.end(reason)

    def join_part(self, octets: bytes, epoch: int, last_k: int) -> None:
        """One message of a JOIN; it is answered at the end of the tick in which the last one came."""
        head = messages.decode_join(octets)
        before = self._join
        if head.epoch != epoch:
            raise BadPeerMessage(f"JOIN is of epoch {head.epoch}, and this is the root of {epoch}")
        if before is not None:
            if before.is_last:
                raise BadPeerMessage("a second JOIN came over the same line")
            if (head.nonce, head.syn_epoch, head.syn_k) != (
                before.nonce,
                before.syn_epoch,
                before.syn_k,
            ):
                raise BadPeerMessage("the messages of a JOIN do not belong together")
        if head.syn_epoch > epoch or (head.syn_epoch == epoch and head.syn_k > last_k):
            raise BadPeerMessage(
                f"JOIN is at position {head.syn_k} of epoch {head.syn_epoch}, which does not exist"
            )
        if self._reader.read(octets, messages.JOIN_HEAD_SIZE) != len(octets):
            raise BadPeerMessage("octets follow the ids of a JOIN")
        self._join = head
        if head.is_last and (head.syn_epoch, head.syn_k) < (epoch, self.acked_k):
            # What it had acknowledged is gone: its disk was lost and replaced.
            self.acked_k = -1

    def is_to_be_answered(self) -> bool:
        return self._join is not None and self._join.is_last and not self.is_answered

    def answer(
        self, epoch: int, state: ReplicatedState, kept: KeptOperations, limits: HaLimits
    ) -> None:
        """RESUME if all operations that it lacks are kept, otherwise SYNC. The state is that after
        the last operation.
        """
        join = self._join
        assert join is not None, "a JOIN came"
        self.is_answered = True
        if join.syn_epoch == epoch and join.syn_k + 1 >= kept.first_k:
            self.sent_k = join.syn_k
            self._answer = [messages.encode_resume(epoch, join.nonce, join.syn_k)]
        else:
            ids = state.ids()
            self.sent_k = kept.last_k
            self._sync_k = kept.last_k
            self._subscribe(ids)
            parts = encode_in_parts(ids, limits.ranges_per_message)
            self._answer = messages.encode_sync(
                epoch, join.nonce, kept.last_k, parts, state.values(), limits.values_per_message
            )
        self._reader = SnapshotsReader(RANGES_MAX)

    def _subscribe(self, ids: IdSets) -> None:
        """To every queue of which it lacks something."""
        for number in sorted(ids, reverse=True):
            snapshot = QueueSnapshot(number, ids[number])
            subscription = ReplicatingSubscription(snapshot, self._reader.sets)
            if not subscription.has_ended:
                self._subscriptions.append(subscription)

    def pump(
        self, epoch: int, state: ReplicatedState, kept: KeptOperations, limits: HaLimits
    ) -> None:
        """Send as much as the line takes: the answer, then operations."""
        line = self.line
        if line is None or not self.is_answered:
            return
        kind = messages.SYNC if self.is_syncing else messages.RESUME
        while self._answered < len(self._answer):
            if line.unsent_bytes() >= limits.unsent_bytes:
                return
            line.send(kind, [self._answer[self._answered]])
            # The octets belong to the line now.
            self._answer[self._answered] = b""
            self._answered += 1
        while self.sent_k < kept.last_k:
            if line.unsent_bytes() >= limits.unsent_bytes:
                return
            line.send(messages.OP, kept.message(self.sent_k + 1))
            self.sent_k += 1

    def has_pieces(self) -> bool:
        """Whether it lacks messages, and everything that goes before them was sent."""
        return bool(self._subscriptions) and self._answered == len(self._answer)

    def send_pieces(
        self, epoch: int, state: ReplicatedState, limits: HaLimits, pace: PiecePace, now: int
    ) -> None:
        """As many as the line takes, the backup has room for, and clients allow."""
        line = self.line
        while line is not None and self._subscriptions:
            outstanding = self._piece_bytes_sent - self._piece_bytes_acked
            if (
                outstanding >= limits.unacknowledged_bytes
                or line.unsent_bytes() >= limits.unsent_bytes
                or pace.allowance(now) <= 0
            ):
                return
            pace.sent(self._send_piece(line, epoch, state, limits.piece_bytes))

    def _send_piece(
        self, line: BackupLine, epoch: int, state: ReplicatedState, octets_max: int
    ) -> int:
        """Returns its octets; nothing is sent if all that was looked up is gone."""
        subscription = self._subscriptions[-1]
        records = subscription.read(state, octets_max)
        if subscription.has_ended:
            self._subscriptions.pop()
        if records:
            self._piece_bytes_sent += len(records)
            line.send(messages.PIECE, [messages.encode_piece_head(epoch), records])
        return len(records)

    def needs(self, first_k: int) -> bool:
        """Whether it has to be sent an operation before this one."""
        return self.is_answered and self.sent_k + 1 < first_k

    def fell_behind(self, now: int) -> None:
        """An operation was made. Its clock runs already if it was behind before."""
        if self.behind_since < 0:
            self.behind_since = now

    def acknowledged(self, ack: messages.Acknowledgement, last_k: int, now: int) -> bool:
        """Whether that is progress."""
        if not self.is_answered:
            raise BadPeerMessage("ACK came before the answer to a JOIN")
        if ack.k > self.sent_k:
            raise BadPeerMessage(f"ACK is of position {ack.k}, and {self.sent_k} was sent")
        if not self._piece_bytes_acked <= ack.piece_bytes <= self._piece_bytes_sent:
            raise BadPeerMessage(
                f"ACK is of {ack.piece_bytes} octets of pieces, and {self._piece_bytes_sent} were sent"
            )
        self._piece_bytes_acked = ack.piece_bytes
        if self.is_syncing and ack.k >= self._sync_k:
            self._sync_k = -1
            self._subscriptions = []
        if ack.k <= self.acked_k:
            return False
        self.acked_k = ack.k
        self.behind_since = -1 if ack.k >= last_k else now
        return True
