"""A backup prepares a SYNC beside its state, and acknowledges what is durable."""

from collections.abc import Callable

import pytest

from penstock.ha import messages
from penstock.ha.backup import Backup
from penstock.ha.id_ranges import count_of_ids
from penstock.ha.limits import HaLimits
from penstock.ha.queue_snapshot import encode_in_parts
from penstock.simulation.protocol.toy_store import GONE, TEXT, ToyChange, encode_change
from tests.ha.doubles import (
    CountingEntropy,
    ManualState,
    RecordingLine,
    dequeued,
    encode_id_sets,
    enqueued,
    operation,
    sets_of,
)

EPOCH = 4


class Stage:
    """A backup that has message 1 in queue 7 and joins the root of epoch 4."""

    def __init__(self) -> None:
        self.state = ManualState()
        self.state.enqueue(7, 1, b"one")
        self.backup = Backup(self.state, CountingEntropy())
        self.nonce = 0
        self.line = RecordingLine()

    def follow(self) -> None:
        self.line = RecordingLine()
        self.nonce += 1
        self.backup.follow(EPOCH, self.line)

    def sync(self, k: int, target: dict[int, list[int]], values: bytes = b"policy=1") -> None:
        parts = [encode_id_sets(sets_of(target))]
        for octets in messages.encode_sync(EPOCH, self.nonce, k, parts, values, 4):
            self.backup.received(messages.SYNC, octets, 0)

    def operation(self, k: int, *changes: ToyChange) -> None:
        octets = operation(EPOCH, k, *changes)
        head = messages.encode_operation_head(
            EPOCH, k, k - 1, messages.operation_checksum([octets])
        )
        self.backup.received(messages.OP, head + octets, 0)

    def piece(self, *changes: ToyChange) -> None:
        records = b"".join(encode_change(change) for change in changes)
        self.backup.received(messages.PIECE, messages.encode_piece_head(EPOCH) + records, 0)

    def flush(self) -> None:
        self.state.flush()
        self.backup.flushed(0)

    def acks(self) -> list[int]:
        sent = [octets for kind, octets in self.line.take() if kind == messages.ACK]
        return [messages.decode_ack(octets).k for octets in sent]


def test_a_join_says_what_is_held_and_where_the_state_is() -> None:
    stage = Stage()
    stage.follow()
    ((kind, octets),) = stage.line.sent
    head = messages.decode_join(octets)
    assert kind == messages.JOIN
    assert (head.epoch, head.nonce, head.syn_epoch, head.syn_k) == (EPOCH, 1, 0, 0)
    assert octets[messages.JOIN_HEAD_SIZE :] == encode_id_sets(sets_of({7: [1]}))
    assert stage.backup.role == "joining"


def test_a_long_join_leaves_as_the_line_drains() -> None:
    limits = HaLimits()
    limits.ranges_per_message = 1
    limits.unsent_bytes = 1
    state = ManualState()
    state.enqueue(7, 1, b"one")
    state.enqueue(7, 3, b"three")
    backup = Backup(state, CountingEntropy(), limits=limits)
    line = RecordingLine()
    line.counts_unsent = True
    backup.follow(EPOCH, line)
    assert len(line.sent) == 1
    line.unsent = 0
    backup.pump()
    assert len(line.sent) == 2
    assert messages.decode_join(line.sent[1][1]).is_last


def test_a_sync_changes_nothing_before_it_is_complete() -> None:
    stage = Stage()
    stage.follow()
    stage.sync(5, {7: [2], 8: [1, 2]})
    assert stage.backup.is_syncing
    assert stage.backup.role == "catchup"
    stage.piece(enqueued(8, 1, b"a"), enqueued(8, 2, b"b"))
    stage.operation(6, enqueued(9, 9, b"c"))
    stage.flush()
    assert stage.state.memory.queues == {7: {1: b"one"}}
    assert stage.state.syn() == (0, 0)
    assert stage.acks() == [-1]
    stage.piece(enqueued(7, 2, b"d"))
    assert stage.state.syn() == (EPOCH, 6)
    assert stage.state.memory.queues == {7: {2: b"d"}, 8: {1: b"a", 2: b"b"}, 9: {9: b"c"}}
    assert stage.state.memory.values == {b"policy": b"1"}
    assert stage.acks() == [-1]
    stage.flush()
    assert stage.acks() == [6]
    assert stage.backup.is_synced


def test_what_is_dequeued_during_a_sync_is_not_missing_any_more() -> None:
    stage = Stage()
    stage.follow()
    stage.sync(5, {7: [1, 2, 3], 8: [1]})
    assert count_of_ids(stage.backup.missing()) == 3
    stage.operation(6, dequeued(7, 1, 2))
    stage.operation(7, ToyChange(GONE, 8))
    assert stage.backup.missing() == sets_of({7: [3]})
    # A piece that crossed the operations does no harm.
    stage.piece(enqueued(7, 2, b"late"), enqueued(8, 1, b"late"), enqueued(7, 3, b"three"))
    assert stage.state.memory.contents()[0] == {7: {3: b"three"}}
    assert stage.state.syn() == (EPOCH, 7)


def test_a_queue_that_gets_a_message_and_is_deleted_in_one_operation_is_gone() -> None:
    stage = Stage()
    stage.follow()
    stage.sync(5, {7: [1, 2]})
    stage.operation(6, ToyChange(GONE, 8), enqueued(8, 4))
    stage.piece(enqueued(7, 2, b"two"))
    assert stage.state.memory.contents()[0] == {7: {1: b"one", 2: b"two"}}


def test_definitions_that_change_during_a_sync_are_those_of_the_last_operation() -> None:
    stage = Stage()
    stage.follow()
    stage.sync(5, {7: [1, 2]}, b"policy=1\nqueue/7=yes")
    stage.operation(6, ToyChange(TEXT, 0, 0, 0, b"policy=2"))
    stage.operation(7, ToyChange(TEXT, 0, 0, 0, b"queue/7="), dequeued(7, 2))
    assert stage.state.memory.values == {b"policy": b"2"}


def test_a_sync_without_missing_messages_ends_at_once_and_surplus_is_gone() -> None:
    stage = Stage()
    stage.follow()
    stage.sync(5, {})
    assert stage.backup.is_synced
    assert stage.state.memory.contents()[0] == {}
    assert stage.acks() == []
    stage.flush()
    assert stage.acks() == [5]


def test_an_abandoned_sync_leaves_the_state_and_the_next_one_goes_on() -> None:
    stage = Stage()
    stage.follow()
    stage.sync(5, {7: [1, 2, 3]})
    stage.piece(enqueued(7, 2, b"two"))
    stage.backup.end()
    assert not stage.backup.is_syncing
    assert stage.state.syn() == (0, 0)
    stage.piece(enqueued(7, 3, b"nobody reads this"))
    stage.follow()
    (octets,) = [octets for kind, octets in stage.line.sent if kind == messages.JOIN]
    assert octets[messages.JOIN_HEAD_SIZE :] == encode_id_sets(sets_of({7: [1, 2]}))
    stage.sync(6, {7: [1, 2, 3]})
    assert stage.backup.missing() == sets_of({7: [3]})
    stage.piece(enqueued(7, 3, b"three"))
    assert stage.state.memory.queues == {7: {1: b"one", 2: b"two", 3: b"three"}}


def test_the_answer_to_an_earlier_join_is_left_alone() -> None:
    stage = Stage()
    stage.follow()
    stage.follow()
    stage.nonce = 1
    stage.sync(5, {})
    assert not stage.backup.is_synced
    assert stage.line.ended == ""
    stage.nonce = 2
    stage.sync(6, {7: [1]})
    assert stage.state.syn() == (EPOCH, 6)


def resumed() -> Stage:
    stage = Stage()
    stage.follow()
    stage.sync(5, {7: [1]})
    stage.flush()
    stage.follow()
    octets = messages.encode_resume(EPOCH, 2, 5)
    stage.backup.received(messages.RESUME, octets, 0)
    return stage


def test_a_resumed_backup_acknowledges_what_it_has_and_goes_on() -> None:
    stage = resumed()
    assert stage.acks() == [5]
    stage.operation(6, enqueued(7, 6, b"six"))
    stage.operation(7, dequeued(7, 1))
    assert stage.acks() == []
    stage.flush()
    assert stage.acks() == [7]
    assert stage.state.memory.queues[7] == {6: b"six"}
    assert stage.backup.committed_k == 6
    stage.flush()
    assert stage.acks() == []


def test_what_is_durable_of_another_epoch_is_not_acknowledged() -> None:
    stage = Stage()
    stage.state.memory.syn = (EPOCH - 1, 9)
    stage.state.journal.store.syn = (EPOCH - 1, 9)
    stage.follow()
    stage.sync(5, {7: [1, 2]})
    stage.piece()
    stage.flush()
    assert stage.acks() == []
    stage.piece(enqueued(7, 5, b"not missing"))
    assert stage.acks() == [-1]


def _op(k: int, epoch: int = EPOCH, committed: int = 0) -> bytes:
    octets = operation(epoch, k, enqueued(7, k))
    return (
        messages.encode_operation_head(epoch, k, committed, messages.operation_checksum([octets]))
        + octets
    )


SETS = encode_in_parts(sets_of({7: [1]}), 0)[0]
BAD: list[tuple[int, bytes, str]] = [
    (messages.OP, _op(8), "came after operation 5"),
    (messages.OP, _op(5), "came after operation 5"),
    (messages.OP, _op(6, EPOCH - 1), "not of 4"),
    (messages.OP, _op(6, committed=6), "before it was made"),
    (messages.OP, _op(6)[:-1], "checksum"),
    (messages.OP, b"", "cut short"),
    (messages.PIECE, messages.encode_piece_head(EPOCH + 1), "not of 4"),
    (messages.SYNC, messages.encode_sync(EPOCH, 2, 9, [SETS], b"", 9)[0], "answered twice"),
    (messages.RESUME, messages.encode_resume(EPOCH, 2, 5), "answered twice"),
    (messages.RESUME, messages.encode_resume(EPOCH + 1, 2, 5), "of epoch 5"),
    (messages.JOIN, b"", "does not send"),
    (99, b"", "does not send"),
]


@pytest.mark.parametrize(("kind", "octets", "reason"), BAD)
def test_a_bad_message_ends_the_line_and_leaves_the_state(
    kind: int, octets: bytes, reason: str
) -> None:
    stage = resumed()
    stage.backup.received(kind, octets, 0)
    assert reason in stage.line.ended
    assert not stage.backup.is_synced
    assert stage.state.syn() == (EPOCH, 5)
    assert stage.state.memory.queues == {7: {1: b"one"}}
    stage.line.take()
    stage.flush()
    assert stage.line.sent == []


def _values_then_ids(stage: Stage) -> None:
    ids, values = messages.encode_sync(EPOCH, 1, 9, [SETS], b"", 9)
    values = values[:12] + bytes([messages.VALUES]) + values[13:]
    for octets in (ids, values + b"x", ids):
        stage.backup.received(messages.SYNC, octets, 0)


def _two_positions(stage: Stage) -> None:
    for k in (8, 9):
        octets = messages.encode_sync(EPOCH, 1, k, [SETS], b"", 9)[0]
        stage.backup.received(messages.SYNC, octets, 0)


def _octets_behind_ids(stage: Stage) -> None:
    octets = messages.encode_sync(EPOCH, 1, 9, [SETS + b"x"], b"", 9)[0]
    stage.backup.received(messages.SYNC, octets, 0)


def _operation_first(stage: Stage) -> None:
    stage.operation(1, enqueued(7, 2))


def _piece_first(stage: Stage) -> None:
    stage.piece(enqueued(7, 2))


def _wrong_resume(stage: Stage) -> None:
    stage.backup.received(messages.RESUME, messages.encode_resume(EPOCH, 1, 5), 0)


BAD_ANSWERS: list[tuple[Callable[[Stage], None], str]] = [
    (_values_then_ids, "ids follow"),
    (_two_positions, "belong together"),
    (_octets_behind_ids, "follow the ids"),
    (_operation_first, "before the answer"),
    (_piece_first, "before the answer"),
    (_wrong_resume, "RESUME at 5"),
]


@pytest.mark.parametrize(("answer", "reason"), BAD_ANSWERS)
def test_a_bad_answer_ends_the_line(answer: Callable[[Stage], None], reason: str) -> None:
    stage = Stage()
    stage.follow()
    answer(stage)
    assert reason in stage.line.ended
    assert not stage.backup.is_syncing
    assert stage.state.syn() == (0, 0)
