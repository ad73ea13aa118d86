"""The backup's side of replication: applies the root's operations and acknowledges what is durable.

*Invariants*: nothing is applied before SYNC or RESUME of the present epoch. Until SYNC-DONE neither
the state nor its position changes (S4). Only what `durable_syn` says is acknowledged, and only in its
own epoch. Anything that is not valid ends the line; the state stays what it was.
"""

from penstock.formats.peer_limits import BadPeerMessage
from penstock.ha import messages
from penstock.ha.backup_line import BackupLine
from penstock.ha.id_ranges import IdSets, minus_sets, union_sets
from penstock.ha.limits import DEFAULT_LIMITS, RANGES_MAX, VALUES_BYTES_MAX, HaLimits
from penstock.ha.queue_snapshot import SnapshotsReader, encode_in_parts
from penstock.ha.replicated_state import ReplicatedState
from penstock.ha.rules import ALL_RULES, HaRules
from penstock.ha.sync_session import SyncSession
from penstock.world.entropy import Entropy


class Backup:
    """Held by the node of a cluster's member; idle while its server is the root."""

    def __init__(
        self,
        state: ReplicatedState,
        entropy: Entropy,
        rules: HaRules = ALL_RULES,
        limits: HaLimits = DEFAULT_LIMITS,
    ) -> None:
        self._state: ReplicatedState = state
        self._entropy: Entropy = entropy
        self._rules: HaRules = rules
        self._limits: HaLimits = limits
        self.epoch: int = 0
        self._line: BackupLine | None = None
        self._nonce: int = 0
        self._held: IdSets = {}
        self._join: list[bytes] = []
        self._joined: int = 0
        self.is_synced: bool = False
        # A SYNC whose messages are arriving, and one that has arrived.
        self._reader: SnapshotsReader | None = None
        self._values: list[bytes] = []
        self._values_bytes: int = 0
        self._sync_k: int = 0
        self._session: SyncSession | None = None
        self._piece_bytes: int = 0
        # What the last ACK of this line said.
        self._acked_k: int = -1
        self._acked_piece_bytes: int = 0
        # What the root last said to be committed.
        self.committed_k: int = -1
        # What answers to JOINs have brought since the start: ids, definitions, and the messages that
        # were missing.
        self.fetched_bytes: int = 0

    @property
    def is_syncing(self) -> bool:
        return self._session is not None or self._reader is not None

    @property
    def is_following(self) -> bool:
        return self._line is not None

    @property
    def role(self) -> str:
        """The protocol's name. Whether a synced server is ready, the cluster's record says."""
        return "catchup" if self.is_synced or self.is_syncing else "joining"

    def missing(self) -> IdSets:
        """What the SYNC under way still lacks."""
        return {} if self._session is None else self._session.missing

    def follow(self, epoch: int, line: BackupLine) -> None:
        """Join the root of an epoch that is durable here, over a line that nobody has joined by."""
        self.end()
        epoch_of_state, k = self._state.syn()
        assert epoch_of_state <= epoch, "the state is not newer than the root"
        if epoch != self.epoch:
            self.committed_k = -1
        self.epoch = epoch
        self._line = line
        self._nonce = int.from_bytes(self._entropy.octets(8), "big")
        self._held = self._state.held()
        parts = encode_in_parts(self._held, self._limits.ranges_per_message)
        self._join = messages.encode_join(epoch, self._nonce, epoch_of_state, k, parts)
        self._pump_join(line)

    def pump(self) -> None:
        """Send the rest of a JOIN as the line drains. Called at the end of every tick."""
        line = self._line
        if line is not None and self._joined < len(self._join):
            self._pump_join(line)

    def _pump_join(self, line: BackupLine) -> None:
        while self._joined < len(self._join):
            if line.unsent_bytes() >= self._limits.unsent_bytes:
                return
            line.send(messages.JOIN, [self._join[self._joined]])
            self._join[self._joined] = b""
            self._joined += 1

    def end(self) -> None:
        """The line was lost, the epoch has changed, or this server is a candidate (S8): the SYNC is
        abandoned. What was staged stays.
        """
        self._line = None
        self._held = {}
        self._join = []
        self._joined = 0
        self.is_synced = False
        self._reader = None
        self._values = []
        self._values_bytes = 0
        self._session = None
        self._piece_bytes = 0
        self._acked_k = -1
        self._acked_piece_bytes = 0

    def received(self, kind: int, octets: bytes, now: int) -> None:
        """A message came over the line to the root."""
        line = self._line
        if line is None:
            return
        try:
            if kind == messages.OP:
                self._operation(octets)
            elif kind == messages.PIECE:
                self.fetched_bytes += len(octets)
                self._piece(octets)
            elif kind == messages.SYNC:
                self.fetched_bytes += len(octets)
                self._sync(octets)
            elif kind == messages.RESUME:
                self._resume(octets)
            else:
                raise BadPeerMessage(f"a root does not send messages of kind {kind}")
        except BadPeerMessage as error:
            self.end()
            line.end(str(error))

    def flushed(self, now: int) -> None:
        """The state's journal was flushed: acknowledge what is durable now."""
        self._acknowledge()

    def _resume(self, octets: bytes) -> None:
        resume = messages.decode_resume(octets)
        if not self._is_answer(resume.epoch, resume.nonce):
            return
        if self._state.syn() != (resume.epoch, resume.k):
            raise BadPeerMessage(f"RESUME at {resume.k}, and the state is at {self._state.syn()}")
        self.is_synced = True
        self._held = {}
        self._acknowledge()

    def _sync(self, octets: bytes) -> None:
        head = messages.decode_sync(octets)
        if not self._is_answer(head.epoch, head.nonce):
            return
        reader = self._reader
        if reader is None:
            reader = SnapshotsReader(RANGES_MAX)
            self._reader = reader
            self._sync_k = head.k
        elif head.k != self._sync_k:
            raise BadPeerMessage("the messages of a SYNC do not belong together")
        if head.has_values:
            self._values_bytes += len(octets) - messages.SYNC_HEAD_SIZE
            if self._values_bytes > VALUES_BYTES_MAX:
                raise BadPeerMessage(
                    f"the values of a SYNC have more than {VALUES_BYTES_MAX} octets"
                )
            if len(octets) > messages.SYNC_HEAD_SIZE:
                self._values.append(octets[messages.SYNC_HEAD_SIZE :])
        elif self._values:
            raise BadPeerMessage("ids follow the values of a SYNC")
        elif reader.read(octets, messages.SYNC_HEAD_SIZE) != len(octets):
            raise BadPeerMessage("octets follow the ids of a SYNC")
        if head.is_last:
            self._begin_session(head.k, reader.sets)

    def _is_answer(self, epoch: int, nonce: int) -> bool:
        """Whether it is the answer to the present JOIN. One to an earlier JOIN is left alone: it may
        be older than what has been acknowledged since (S2).
        """
        if nonce != self._nonce and self._rules.present_join:
            return False
        if epoch != self.epoch:
            raise BadPeerMessage(
                f"the answer is of epoch {epoch}, and the JOIN was of {self.epoch}"
            )
        if self.is_synced or self._session is not None:
            raise BadPeerMessage("a JOIN was answered twice")
        return True

    def _begin_session(self, k: int, target: IdSets) -> None:
        values = b"".join(self._values)
        self._session = SyncSession(k, target, values, self._held, self._rules)
        self._held = {}
        self._reader = None
        self._values = []
        self._finish_if_complete(self._session)

    def _operation(self, octets: bytes) -> None:
        head = messages.decode_operation_head(octets)
        session = self._session
        if head.epoch != self.epoch:
            raise BadPeerMessage(f"an operation is of epoch {head.epoch}, not of {self.epoch}")
        if session is None and not self.is_synced:
            raise BadPeerMessage("an operation came before the answer to a JOIN")
        k = session.k if session is not None else self._state.syn()[1]
        if head.k != k + 1:
            raise BadPeerMessage(f"operation {head.k} came after operation {k}")
        if head.committed >= head.k:
            raise BadPeerMessage(f"operation {head.k} was committed before it was made")
        self.committed_k = head.committed
        if session is None:
            self._state.apply_received(octets, messages.OP_HEAD_SIZE, head.checksum)
            if not self._rules.durable:
                self._acknowledge()
            return
        operation = octets[messages.OP_HEAD_SIZE :]
        session.operation(head.k, self._state.parts(operation))
        self._state.stage_operation(operation)
        self._finish_if_complete(session)

    def _piece(self, octets: bytes) -> None:
        """It is taken as far as it is missing; after the SYNC nothing is (S5)."""
        epoch = messages.decode_piece_head(octets)
        session = self._session
        if epoch != self.epoch:
            raise BadPeerMessage(f"a piece is of epoch {epoch}, not of {self.epoch}")
        if session is None and not self.is_synced:
            raise BadPeerMessage("a piece came before the answer to a JOIN")
        self._piece_bytes += len(octets) - messages.PIECE_HEAD_SIZE
        if session is not None:
            records = octets[messages.PIECE_HEAD_SIZE :]
            session.took(self._state.stage_piece(records, session.missing))
            self._finish_if_complete(session)
        self._acknowledge()

    def _finish_if_complete(self, session: SyncSession) -> None:
        """SYNC-DONE (S7). It is acknowledged when the state says that it is durable."""
        if not session.is_complete:
            if not self._rules.stage:
                self._apply_in_place(session)
            return
        target = session.target
        if not self._rules.erase:
            target = union_sets(self._state.ids(), target)
        self._state.finish(self.epoch, session.k, target, session.values, session.changes)
        self._session = None
        self.is_synced = True
        if not self._rules.durable:
            self._acknowledge()

    def _apply_in_place(self, session: SyncSession) -> None:
        """Only without the rule S4: the state becomes what is there already, at no position."""
        epoch, k = self._state.syn()
        there = minus_sets(session.target, session.missing)
        self._state.finish(epoch, k, there, session.values, session.changes)

    def _acknowledge(self) -> None:
        line = self._line
        session = self._session
        if line is None or (session is None and not self.is_synced):
            return
        epoch, k = self._state.durable_syn() if self._rules.durable else self._state.syn()
        if epoch != self.epoch and self._rules.present_epoch:
            k = -1
        if session is not None and not self._rules.whole:
            k = session.k
        if k <= self._acked_k and self._piece_bytes == self._acked_piece_bytes:
            return
        self._acked_k = max(self._acked_k, k)
        self._acked_piece_bytes = self._piece_bytes
        line.send(messages.ACK, [messages.encode_ack(self.epoch, self._acked_k, self._piece_bytes)])
