"""Answers that wait for the disk."""

from __future__ import annotations

from penstock.broker.topology import DeclareQueue
from penstock.node.durable_answer import DurableAnswer
from penstock.storage.memory_disk import MemoryDisk
from tests.dialects.amqp10.doubles import House


def test_without_a_data_directory_the_tick_answers_once() -> None:
    house = House()
    answers: list[str] = []
    DurableAnswer(house.node, lambda: answers.append("durable"))
    assert answers == []
    house.settle()
    house.settle()
    assert answers == ["durable"]


def test_with_one_the_flush_of_what_the_tick_wrote_answers() -> None:
    disk = MemoryDisk(at_once=False)
    house = House(disk)
    house.settle()
    disk.answer_flushes(house.now)
    house.settle()
    answers: list[str] = []
    house.node.apply_to_vhost("/", DeclareQueue("q", durable=True), house.now)
    DurableAnswer(house.node, lambda: answers.append("durable"))
    house.settle()
    assert answers == []
    # The second flush covers what came while the first was under way.
    for _ in range(2):
        disk.answer_flushes(house.now)
        house.settle()
    assert answers == ["durable"]
