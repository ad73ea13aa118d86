"""The ready list against a sorted list that is obviously right."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.priority import PriorityReadyList
from penstock.broker.queues.ready_list import ReadyList
from tests.broker.queues.doubles import message

STEPS = st.lists(
    st.one_of(
        st.just(("append", 0)),
        st.just(("pop", 0)),
        st.tuples(st.just("requeue"), st.integers(0, 10_000)),
        st.tuples(st.just("remove"), st.integers(0, 10_000)),
    ),
    max_size=300,
)


@given(steps=STEPS, burst=st.integers(1, 40))
def test_any_mixture_of_steps_keeps_entries_in_order_of_position(
    steps: list[tuple[str, int]], burst: int
) -> None:
    ready = ReadyList()
    model: list[int] = []
    out: list[QueueEntry] = []
    position = 0
    for step, choice in steps:
        if step == "append":
            for _ in range(burst):
                position += 1
                ready.append(QueueEntry(message(b""), position))
                model.append(position)
        elif step == "pop" and model:
            entry = ready.pop_first()
            assert entry.position == model.pop(0)
            out.append(entry)
        elif step == "requeue" and out:
            entry = out.pop(choice % len(out))
            ready.insert(entry)
            model.append(entry.position)
            model.sort()
        elif step == "remove" and model:
            index = choice % len(model)
            entry = ready.remove_at(ready.index_from(model[index]))
            assert entry.position == model.pop(index)
            out.append(entry)
        first = ready.first()
        assert ready.count == len(model)
        assert (first.position if first else None) == (model[0] if model else None)
    assert [entry.position for entry in ready.clear()] == model


def test_a_long_run_of_appends_and_pops_keeps_no_dead_slots() -> None:
    ready = ReadyList()
    for position in range(1, 50_001):
        ready.append(QueueEntry(message(b""), position))
        if position > 10:
            ready.pop_first()
    assert len(ready._slots) < 2100


@pytest.mark.parametrize("place", [0, 3, 9])
def test_a_long_run_of_appends_and_removals_keeps_no_dead_slots(place: int) -> None:
    ready = ReadyList()
    for position in range(1, 20_001):
        ready.append(QueueEntry(message(b""), position))
        if ready.count > 10:
            waiting = ready.positions()
            assert ready.remove_at(ready.index_from(waiting[place])).position == waiting[place]
        assert len(ready._slots) < 2100
    assert ready.count == 10


def test_an_emptied_list_gives_its_memory_back() -> None:
    ready = ReadyList()
    for position in range(1, 5001):
        ready.append(QueueEntry(message(b""), position))
    for _ in range(5000):
        ready.pop_first()
    assert len(ready._slots) <= 64


@given(st.lists(st.integers(0, 12), max_size=60))
def test_higher_priorities_come_first_and_equal_ones_in_order(priorities: list[int]) -> None:
    ready = PriorityReadyList(9)
    for position, priority in enumerate(priorities, start=1):
        ready.append(QueueEntry(message(b"", priority=priority), position))
    expected = sorted(
        range(1, len(priorities) + 1),
        key=lambda position: (-min(priorities[position - 1], 9), position),
    )
    assert [ready.pop_first().position for _ in priorities] == expected


def test_a_requeued_entry_of_a_priority_list_goes_back_into_its_level() -> None:
    ready = PriorityReadyList(5)
    for position in (1, 2, 3):
        ready.append(QueueEntry(message(b"", priority=position), position))
    first = ready.pop_first()
    second = ready.pop_first()
    ready.insert(first)
    ready.insert(second)
    assert [ready.pop_first().position for _ in range(3)] == [3, 2, 1]
