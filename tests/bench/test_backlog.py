"""Filling and draining against a fake broker."""

from pathlib import Path

import pytest

from bench.backlog import Patience, drain, fill
from bench.board import Board
from bench.consumer import MiscountedDeliveriesError
from bench.loader import LoadFailedError
from bench.numbered_consumer import NumberedConsumingLane
from bench.numbered_publisher import NumberedPublishingLane
from bench.plan import LoadPlan, acknowledged, paired
from bench.session import Session
from tests.bench.fake_broker import FakeBroker

HOST = "127.0.0.1"


def plan_for(broker: FakeBroker) -> LoadPlan:
    plan = acknowledged(paired(HOST, broker.port, "b", 1, 100), durable=True)
    session = Session(HOST, broker.port)
    session.declare_queues(plan.queues, durable=True)
    session.close()
    return plan


def filled(plan: LoadPlan, folder: Path) -> tuple[int, list[int]]:
    seen: list[int] = []
    board = Board(folder / "filling", 1, 1)
    return fill(NumberedPublishingLane(plan, 0, board), board, 2000, seen.append), seen


def drained(plan: LoadPlan, folder: Path, count: int) -> list[int]:
    seen: list[int] = []
    board = Board(folder / "draining", 1, 1)
    drain(NumberedConsumingLane(plan, 0, board), board, count, seen.append)
    return seen


def test_what_was_filled_in_is_drained_in_order(tmp_path: Path) -> None:
    with FakeBroker() as broker:
        plan = plan_for(broker)
        count, confirmed = filled(plan, tmp_path)
        session = Session(HOST, broker.port)
        assert session.ready_count(plan.queues[0]) == count >= 2000
        session.close()
        delivered = drained(plan, tmp_path, count)
        assert confirmed[-1] == delivered[-1] == count
        assert delivered == sorted(delivered)


def test_messages_out_of_order_are_found_while_draining(tmp_path: Path) -> None:
    with FakeBroker() as broker:
        plan = plan_for(broker)
        count, _ = filled(plan, tmp_path)
        messages = broker.waiting[plan.queues[0]]
        messages[700], messages[701] = messages[701], messages[700]
        with pytest.raises(MiscountedDeliveriesError, match="message 701 came where 700 was due"):
            drained(plan, tmp_path, count)


def test_patience_ends_when_nothing_moves() -> None:
    patience = Patience("confirming", seconds_max=0)
    patience.seen(5)
    patience.seen(6)
    with pytest.raises(LoadFailedError, match="stopped after confirming 6 messages"):
        patience.seen(6)
