"""Unacknowledged deliveries against a dictionary that is obviously right."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.entry import QueueEntry
from penstock.dialects.amqp091.unacknowledged import Receiver, Unacknowledged, UnacknowledgedPart
from tests.broker.queues.doubles import make_queue, message

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.integers(1, 40)),
        st.tuples(st.just("skip"), st.integers(1, 5)),
        st.tuples(st.just("one"), st.integers(0, 100_000)),
        st.tuples(st.just("multiple"), st.integers(0, 100_000)),
    ),
    max_size=120,
)


class Quiet(Receiver):
    def settled(self, count: int) -> None:
        pass


@given(STEPS)
def test_any_order_of_deliveries_and_settlements_finds_each_tag(
    steps: list[tuple[str, int]],
) -> None:
    queue, _ = make_queue()
    receiver = Quiet(queue, "t", 0, False, False)
    waiting = Unacknowledged()
    model: dict[int, QueueEntry] = {}
    tag = 0
    for step, number in steps:
        if step == "deliver":
            for _ in range(number):
                tag += 1
                model[tag] = QueueEntry(message(b""), tag)
                waiting.add(tag, model[tag], receiver)
        elif step == "skip":
            tag += number
        elif model:
            chosen = sorted(model)[number % len(model)]
            assert waiting.holds(chosen)
            gone = [known for known in model if known <= chosen] if step == "multiple" else [chosen]
            for known in gone:
                slot = waiting.slot_of(known)
                assert waiting.entry_at(slot) is model.pop(known)
                waiting.settle(slot)
            waiting.trim()
        assert waiting.count == len(model)
        assert not waiting.holds(0)
        assert not waiting.holds(tag + 1)
        assert all(waiting.holds(known) for known in model)
    held = [
        waiting.entry_at(slot)
        for slot in range(waiting.head(), waiting.end_of(0))
        if waiting.entry_at(slot) is not None
    ]
    assert held == [model[known] for known in sorted(model)]


def test_settled_slots_do_not_pile_up() -> None:
    queue, _ = make_queue()
    receiver = Quiet(queue, "t", 0, False, False)
    waiting = Unacknowledged()
    for tag in range(1, 50_001):
        waiting.add(tag, QueueEntry(message(b""), tag), receiver)
        if tag > 10:
            waiting.settle(waiting.slot_of(tag - 10))
            waiting.trim()
    assert len(waiting._entries) < 2100


@given(st.lists(st.tuples(st.integers(0, 4_000), st.integers(1, 3_000)), max_size=6))
def test_a_part_finds_each_delivery_once_whatever_is_settled_between_its_steps(
    steps: list[tuple[int, int]],
) -> None:
    """Slots are cut off when many are settled, so tags and not slots say how far it is."""
    queue, _ = make_queue()
    receiver = Quiet(queue, "t", 0, False, False)
    waiting = Unacknowledged()
    tags = range(1, 4_001)
    for tag in tags:
        waiting.add(tag, QueueEntry(message(b""), tag), receiver)
    part = UnacknowledgedPart(waiting)
    found: list[int] = []
    settled = 0
    for upto, count in steps:
        found += [entry.position for _, entry in part.take(count)]
        for tag in range(settled + 1, upto + 1):
            waiting.settle(waiting.slot_of(tag))
        waiting.trim()
        settled = max(settled, upto)
        # What is delivered meanwhile is not looked for.
        waiting.add(waiting.end_tag(), QueueEntry(message(b""), 10_000), receiver)
    while not part.is_over:
        found += [entry.position for _, entry in part.take(700)]
    assert found == sorted(set(found))
    assert set(tags[settled:]) <= set(found) <= set(tags)
