"""A primary commits in order, answers JOINs, and lets nobody else suffer for a bad peer."""

import pytest

from penstock.ha import messages
from penstock.ha.limits import OPERATION_OVERHEAD_BYTES, HaLimits
from penstock.ha.primary import Primary
from penstock.ha.queue_snapshot import encode_in_parts
from tests.ha.doubles import (
    FixedSet,
    ManualState,
    RecordingLine,
    RecordingListener,
    encode_id_sets,
    enqueued,
    sets_of,
    written,
)

EPOCH = 3


class Stage:
    """A primary of epoch 3 with its doubles; record 9 is at position 10 of its journal."""

    def __init__(self, names: list[str] | None = None, limits: HaLimits | None = None) -> None:
        self.state = ManualState()
        self.in_sync_set = FixedSet(["a", "b"] if names is None else names)
        self.listener = RecordingListener()
        self.state.begin_root(EPOCH)
        self.primary = Primary(
            "a",
            EPOCH,
            self.state,
            self.in_sync_set,
            self.listener,
            10,
            100,
            limits=limits or HaLimits(),
        )

    def write(self, position: int, body: bytes = b"body") -> None:
        epoch, k = self.primary.next_number()
        octets = written(self.state, epoch, k, enqueued(1, k, body))
        self.primary.wrote([octets[:5], octets[5:]], len(octets), position)

    def join(
        self, name: str, syn: tuple[int, int] = (0, 0), held: dict[int, list[int]] | None = None
    ) -> RecordingLine:
        line = RecordingLine()
        parts = [encode_id_sets(sets_of(held or {}))]
        for octets in messages.encode_join(EPOCH, 77, syn[0], syn[1], parts):
            self.primary.joined(name, octets, line, 200)
        return line

    def ack(self, name: str, k: int, piece_bytes: int = 0, now: int = 300) -> None:
        self.primary.acked(name, messages.encode_ack(EPOCH, k, piece_bytes), now)


def synced(stage: Stage, name: str = "b") -> RecordingLine:
    line = stage.join(name)
    stage.primary.pump(200)
    line.take()
    return line


def test_a_position_is_committed_when_everybody_awaited_has_it_durably() -> None:
    stage = Stage()
    synced(stage)
    stage.ack("b", 0)
    assert stage.listener.positions == []
    stage.primary.local_durable(10, 300)
    assert stage.listener.positions == [(10, 0)]
    stage.write(11)
    stage.write(12)
    stage.primary.pump(300)
    stage.primary.local_durable(12, 310)
    stage.ack("b", 1)
    assert stage.listener.positions == [(10, 0), (11, 1)]
    stage.ack("b", 2)
    assert stage.listener.positions[-1] == (12, 2)
    assert stage.primary.committed_k == 2


def test_nothing_is_committed_before_the_first_record_of_the_epoch() -> None:
    stage = Stage(["a"])
    stage.in_sync_set.begun = False
    stage.primary.local_durable(10, 300)
    assert stage.listener.positions == []
    stage.in_sync_set.begun = True
    stage.primary.advance(310)
    assert stage.listener.positions == [(10, 0)]


def test_the_own_disk_is_waited_for_like_any_other() -> None:
    stage = Stage()
    synced(stage)
    stage.write(11)
    stage.primary.pump(300)
    stage.ack("b", 1)
    assert stage.primary.committed_k == -1
    stage.primary.local_durable(11, 310)
    assert stage.listener.positions == [(11, 1)]


def test_a_tick_of_housekeeping_is_committed_with_the_operation_before_it() -> None:
    stage = Stage()
    synced(stage)
    stage.write(11)
    stage.primary.wrote_housekeeping(12)
    stage.write(13)
    stage.primary.pump(300)
    stage.primary.local_durable(12, 300)
    stage.ack("b", 1)
    assert stage.listener.positions == [(12, 1)]
    stage.primary.wrote_housekeeping(14)
    stage.primary.local_durable(13, 300)
    stage.ack("b", 2)
    assert stage.listener.positions[-1] == (13, 2)
    stage.primary.local_durable(14, 300)
    assert stage.listener.positions[-1] == (14, 2)


def test_a_smaller_in_sync_set_commits_what_a_lost_backup_held_up() -> None:
    stage = Stage(["a", "b", "c"])
    synced(stage, "b")
    synced(stage, "c")
    stage.write(11)
    stage.primary.pump(300)
    stage.primary.local_durable(11, 300)
    stage.ack("b", 1)
    stage.primary.line_lost("c")
    assert stage.listener.positions == []
    stage.in_sync_set.names = ["a", "b"]
    stage.primary.advance(400)
    assert stage.listener.positions == [(11, 1)]


def test_a_join_is_answered_with_ids_and_values_then_operations_then_pieces() -> None:
    stage = Stage()
    stage.state.enqueue(1, 50, b"x" * 40)
    stage.state.enqueue(2, 60, b"y")
    stage.state.enqueue(2, 61, b"z")
    line = stage.join("b", held={2: [61]})
    assert line.sent == []
    stage.write(11)
    stage.primary.pump(200)
    assert line.kinds() == [messages.SYNC, messages.SYNC, messages.PIECE, messages.PIECE]
    assert messages.decode_sync(line.sent[0][1]).k == 1
    # The operation is part of the answer's state; its message comes as a piece.
    assert [octets.count(b"body") for _, octets in line.sent] == [0, 0, 1, 0]
    assert b"z" not in line.sent[3][1]
    stage.write(12)
    stage.primary.pump(210)
    assert line.sent[-1][0] == messages.OP
    assert stage.primary.is_syncing("b")
    stage.ack("b", 2, sum(len(octets) - 4 for kind, octets in line.sent if kind == messages.PIECE))
    assert not stage.primary.is_syncing("b")
    assert stage.primary.acked_k("b") == 2


def test_pieces_have_a_rate_while_clients_publish_and_none_when_they_stop() -> None:
    limits = HaLimits()
    limits.piece_bytes = 1
    limits.unacknowledged_bytes = 1 << 30
    limits.piece_bytes_per_ms = 25
    limits.piece_burst_bytes = 250
    stage = Stage(limits=limits)
    for position in range(1, 1_001):
        stage.state.enqueue(9, position, b"0123456789")
    line = stage.join("b")
    stage.write(11)
    stage.primary.pump(200)
    # A piece may exceed what is allowed.
    assert line.piece_octets() == pytest.approx(250, abs=50)
    for now in range(201, 241):
        stage.write(now)
        stage.primary.pump(now)
    assert line.piece_octets() == pytest.approx(250 + 40 * 25, abs=100)
    assert line.kinds().count(messages.OP) == 40
    stage.primary.pump(300)
    # One has the message of the operation that came before the answer.
    assert line.kinds().count(messages.PIECE) == 1_001


def test_pieces_wait_for_acknowledgements_and_operations_do_not() -> None:
    limits = HaLimits()
    limits.piece_bytes = 1
    limits.unacknowledged_bytes = 30
    stage = Stage(limits=limits)
    for position in range(1, 6):
        stage.state.enqueue(9, position, b"0123456789")
    line = stage.join("b")
    stage.primary.pump(200)
    # Each piece has 29 octets: one more is sent when the limit is not reached.
    assert line.kinds().count(messages.PIECE) == 2
    stage.write(11)
    stage.primary.pump(210)
    assert line.kinds()[-1] == messages.OP
    stage.ack("b", -1, 58)
    stage.primary.pump(220)
    assert line.kinds().count(messages.PIECE) == 4
    sent = [octets for kind, octets in line.sent if kind == messages.PIECE]
    assert [int.from_bytes(octets[13:21], "big") for octets in sent] == [1, 2, 3, 4]


def test_what_was_dequeued_since_is_left_out_of_pieces() -> None:
    stage = Stage()
    stage.state.enqueue(9, 1, b"first")
    stage.state.enqueue(9, 2, b"second")
    line = stage.join("b")
    line.unsent = 1 << 30
    stage.primary.pump(200)
    assert line.sent == []
    del stage.state.memory.queues[9][1]
    line.unsent = 0
    stage.primary.pump(210)
    (piece,) = [octets for kind, octets in line.sent if kind == messages.PIECE]
    assert b"second" in piece
    assert b"first" not in piece


def test_a_join_within_the_epoch_is_resumed_while_its_operations_are_kept() -> None:
    stage = Stage()
    for position in range(11, 15):
        stage.write(position)
    line = stage.join("b", syn=(EPOCH, 2))
    stage.primary.pump(200)
    assert line.kinds() == [messages.RESUME, messages.OP, messages.OP]
    assert messages.decode_resume(line.sent[0][1]).k == 2
    assert [messages.decode_operation_head(octets).k for _, octets in line.sent[1:]] == [3, 4]
    assert not stage.primary.is_syncing("b")


def test_operations_that_are_not_kept_any_more_cannot_be_resumed() -> None:
    limits = HaLimits()
    limits.kept_bytes = 3 * (OPERATION_OVERHEAD_BYTES + 50)
    stage = Stage(limits=limits)
    for position in range(11, 21):
        stage.write(position)
    line = stage.join("b", syn=(EPOCH, 2))
    stage.primary.pump(200)
    assert line.kinds()[0] == messages.SYNC
    late = stage.join("c", syn=(EPOCH, 8))
    stage.primary.pump(200)
    assert late.kinds()[0] == messages.RESUME


def test_a_line_with_too_many_operations_waiting_is_ended_and_no_other() -> None:
    limits = HaLimits()
    limits.kept_bytes = 3 * (OPERATION_OVERHEAD_BYTES + 50)
    limits.unsent_bytes = 10
    stage = Stage(limits=limits)
    slow, quick = stage.join("b"), stage.join("c")
    stage.primary.pump(200)
    slow.unsent = 1000
    for position in range(11, 21):
        stage.write(position)
        stage.primary.pump(position * 100)
    assert "join again" in slow.ended
    assert quick.ended == ""
    assert quick.kinds().count(messages.OP) == 10


def test_an_operation_larger_than_every_buffer_is_sent_as_the_line_drains() -> None:
    limits = HaLimits()
    limits.kept_bytes = 2 * OPERATION_OVERHEAD_BYTES + 100
    limits.unsent_bytes = 100
    stage = Stage(limits=limits)
    line = synced(stage)
    line.counts_unsent = True
    stage.write(11, b"x" * 5000)
    stage.primary.pump(200)
    stage.write(12)
    stage.primary.pump(210)
    assert line.kinds() == [messages.OP]
    assert line.ended == ""
    line.unsent = 0
    stage.primary.pump(220)
    assert line.kinds() == [messages.OP, messages.OP]
    assert stage.primary.lag_bytes("b") > 5000


def test_a_join_in_several_messages_is_answered_after_the_last() -> None:
    stage = Stage()
    line = RecordingLine()
    held = encode_in_parts(sets_of({1: [1, 3, 5], 2: [1]}), 2)
    assert len(held) == 2
    first, second = messages.encode_join(EPOCH, 5, 0, 0, held)
    stage.primary.joined("b", first, line, 200)
    stage.primary.pump(200)
    assert line.sent == []
    stage.primary.joined("b", second, line, 210)
    stage.primary.pump(210)
    assert line.kinds()[0] == messages.SYNC


JOIN = messages.encode_join(EPOCH, 5, 0, 0, [encode_id_sets({})])[0]
NOT_LAST = messages.encode_join(EPOCH, 5, 0, 0, [encode_id_sets({}), b""])[0]
OTHER = messages.encode_join(EPOCH, 6, 0, 0, [encode_id_sets({})])[0]
BAD_JOINS = [
    ([b"short"], "cut short"),
    ([messages.encode_join(EPOCH - 1, 5, 0, 0, [encode_id_sets({})])[0]], "root of 3"),
    ([messages.encode_join(EPOCH, 5, EPOCH, 4, [encode_id_sets({})])[0]], "does not exist"),
    ([messages.encode_join(EPOCH, 5, EPOCH + 1, 0, [encode_id_sets({})])[0]], "does not exist"),
    ([JOIN, JOIN], "second JOIN"),
    ([NOT_LAST, OTHER], "belong together"),
    ([JOIN + b"x"], "follow"),
]


@pytest.mark.parametrize(("parts", "reason"), BAD_JOINS)
def test_a_bad_join_ends_its_line_and_no_other(parts: list[bytes], reason: str) -> None:
    stage = Stage()
    other = synced(stage, "c")
    line = RecordingLine()
    for octets in parts:
        stage.primary.joined("b", octets, line, 200)
    assert reason in line.ended
    stage.primary.pump(210)
    stage.write(11)
    stage.primary.pump(220)
    assert other.kinds() == [messages.OP]
    assert line.sent == []


BAD_ACKS = [
    (b"short", "ACK has 5"),
    (messages.encode_ack(EPOCH - 1, 0, 0), "of epoch 2"),
    (messages.encode_ack(EPOCH, 1, 0), "and 0 was sent"),
    (messages.encode_ack(EPOCH, 0, 1), "octets of pieces"),
]


@pytest.mark.parametrize(("octets", "reason"), BAD_ACKS)
def test_a_bad_ack_ends_its_line_and_counts_for_nothing(octets: bytes, reason: str) -> None:
    stage = Stage()
    line = synced(stage)
    stage.primary.acked("b", octets, 300)
    assert reason in line.ended
    assert stage.primary.acked_k("b") == -1
    stage.ack("b", 0)
    assert stage.primary.acked_k("b") == -1


def test_an_ack_before_the_answer_to_its_join_is_refused() -> None:
    stage = Stage()
    line = stage.join("b")
    stage.ack("b", 0)
    assert "before the answer" in line.ended


def test_acknowledgements_stay_valid_for_the_epoch_but_not_for_another_disk() -> None:
    stage = Stage()
    synced(stage)
    stage.write(11)
    stage.primary.pump(300)
    stage.ack("b", 1)
    stage.primary.line_lost("b")
    stage.join("b", syn=(EPOCH, 1))
    assert stage.primary.acked_k("b") == 1
    # The same server with less than it acknowledged: its disk is another one.
    stage.join("b", syn=(0, 0))
    assert stage.primary.acked_k("b") == -1
    line = synced(stage)
    stage.ack("b", 1)
    stage.primary.forget("b")
    assert stage.primary.acked_k("b") == -1
    assert "replaced" in line.ended


def test_the_clock_of_a_server_that_is_behind_starts_when_it_falls_behind() -> None:
    stage = Stage()
    assert stage.primary.behind_since("b") == -1
    stage.join("b")
    stage.primary.pump(200)
    assert stage.primary.behind_since("b") == 200
    stage.ack("b", 0, now=250)
    assert stage.primary.behind_since("b") == -1
    stage.write(11)
    stage.primary.pump(400)
    stage.write(12)
    stage.primary.pump(500)
    assert stage.primary.behind_since("b") == 400
    assert stage.primary.oldest_unacked_made_at("b") == 400
    stage.ack("b", 1, now=600)
    assert stage.primary.behind_since("b") == 600
    assert stage.primary.oldest_unacked_made_at("b") == 500
    stage.primary.line_lost("b")
    stage.join("b", syn=(EPOCH, 1))
    assert stage.primary.behind_since("b") == 600
    stage.primary.pump(700)
    stage.ack("b", 2, now=710)
    assert stage.primary.oldest_unacked_made_at("b") == -1
    assert stage.primary.lag_bytes("b") == 0
    assert stage.listener.progress == ["b", "b", "b"]


def test_all_lines_end_when_the_server_steps_down() -> None:
    stage = Stage()
    line = synced(stage)
    stage.primary.end("a higher epoch")
    assert line.ended == "a higher epoch"
