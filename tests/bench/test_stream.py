"""Appending to a stream of a fake broker and reading it back."""

import functools
import os
from pathlib import Path

import pytest

from bench.board import Board
from bench.cases import Case
from bench.consumer import MiscountedDeliveriesError
from bench.plan import load_plan, streamed
from bench.publisher import PublishingLane
from bench.stream import StreamSample, append, measure_stream, reading
from tests.bench.fake_broker import FROM_THE_FIRST, FakeBroker

HOST = "127.0.0.1"


def measured(broker: FakeBroker, publishers: int) -> StreamSample:
    plan = streamed(HOST, broker.port, "s", publishers, 100)
    return measure_stream(plan, os.getpid(), seconds=0.02, warm_up=0.01)


@pytest.mark.parametrize("publishers", [1, 4])
def test_everything_appended_is_read_back(publishers: int) -> None:
    with FakeBroker() as broker:
        sample = measured(broker, publishers)
        assert not broker.queues
    # What was confirmed before and after the window is read as well.
    assert sample.append.confirmed <= sample.read.delivered == broker.published
    assert sample.read.delivered > 0


def test_appends_count_when_they_are_confirmed_and_none_is_left_unconfirmed(
    tmp_path: Path,
) -> None:
    board = Board(tmp_path / "board", 2, 1)
    with FakeBroker() as broker:
        plan = streamed(HOST, broker.port, "s", 2, 100)
        lanes = [PublishingLane(plan, index, board) for index in range(2)]
        take = functools.partial(reading, board, 0.0, 0)
        # A clock that goes by confirms.
        before, after = append(lanes, board, take, [0, 3000], lambda: sum(board.confirmed))
        for lane in lanes:
            lane.session.close()
        assert sum(board.confirmed) == sum(board.published) == broker.published
    assert before.delivered == 0
    assert 3000 <= after.delivered == after.confirmed <= broker.published


def test_an_offset_that_was_left_out_is_found() -> None:
    with FakeBroker(skipping_offset=10) as broker:
        with pytest.raises(MiscountedDeliveriesError, match="has the offset"):
            measured(broker, 1)
        assert not broker.queues


def test_a_delivery_without_its_offset_is_no_delivery_of_a_stream() -> None:
    complaint = pytest.raises(MiscountedDeliveriesError, match="has no offset")
    with FakeBroker(ignoring_offsets=True) as broker, complaint:
        measured(broker, 1)


def test_only_a_stream_is_asked_for_its_beginning(tmp_path: Path) -> None:
    plan = streamed(HOST, 5672, "s", 4, 100)
    plan.save(tmp_path / "plan")
    assert load_plan(tmp_path / "plan") == plan
    assert (plan.durable, plan.queue_type, plan.queues) == (True, "stream", ("s",))
    assert plan.consume_arguments == FROM_THE_FIRST
    assert Case("durable", 100, 1).plan(HOST, 5672, "p", "quorum").consume_arguments == {}
