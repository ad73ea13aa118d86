"""Looking without touching."""

import pytest

from penstock.broker.queues.peek import (
    LOOKED_AT_MAX,
    STEP_BYTES,
    STEP_LOOKED_AT,
    Peek,
    PeekAtHeld,
    PeekPlace,
)
from penstock.broker.selectors.selector import Selector
from tests.broker.store.doubles import Broker, message

ROOM = 1 << 30


@pytest.fixture
def broker() -> Broker:
    broker = Broker()
    broker.declare("q")
    return broker


def peeked(
    broker: Broker,
    place: PeekPlace,
    count: int = 1000,
    selector: str = "",
    answer_bytes: int = ROOM,
) -> Peek:
    chosen = Selector.parse(selector) if selector else None
    peek = Peek(broker.vhost.queue("q"), place, chosen, count, ROOM, answer_bytes)
    while peek.step(broker.now):
        pass
    return peek


def bodies(peek: Peek) -> list[bytes]:
    return [found.message.body for found in peek.found]


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def test_what_is_peeked_at_is_delivered_as_if_nobody_had_looked(broker: Broker) -> None:
    broker.put("q", *numbers(0, 100))
    broker.rest()
    before = broker.vhost.queue("q").published_total, broker.vhost.queue("q").delivered_total
    assert bodies(peeked(broker, PeekPlace(0, 0))) == numbers(0, 100)
    queue = broker.vhost.queue("q")
    assert (queue.published_total, queue.delivered_total) == before
    assert queue.unacked_count == 0
    for number in range(100):
        entry = broker.get("q")
        assert entry.message.body == b"%d" % number
        assert not entry.is_redelivered
        assert entry.delivery_count == 0


def test_a_place_stays_valid_while_messages_come_and_go(broker: Broker) -> None:
    broker.put("q", *numbers(0, 40))
    broker.rest()
    first = peeked(broker, PeekPlace(0, 0), count=10)
    assert not first.is_at_end
    broker.take("q", 25)
    broker.put("q", *numbers(40, 45))
    broker.rest()
    rest = peeked(broker, first.next)
    assert bodies(rest) == numbers(25, 45)
    assert rest.is_at_end
    broker.put("q", b"45")
    assert bodies(peeked(broker, rest.next)) == [b"45"]


def test_what_came_back_is_seen_from_the_beginning(broker: Broker) -> None:
    broker.put("q", *numbers(0, 3))
    entry = broker.get("q")
    assert bodies(peeked(broker, PeekPlace(0, 0))) == numbers(1, 3)
    broker.settle(entry).requeue([entry], broker.now)
    found = peeked(broker, PeekPlace(0, 0)).found
    assert [one.is_redelivered for one in found] == [True, False, False]
    assert found[0].delivery_count == 1


def test_priorities_are_seen_highest_first_and_pages_go_on_there(broker: Broker) -> None:
    other = Broker()
    other.declare("q", arguments={"x-max-priority": 3})
    queue = other.vhost.queue("q")
    for number in range(12):
        queue.enqueue(message(b"%d" % number, priority=number % 4), other.now)
    other.rest()
    everything = bodies(peeked(other, PeekPlace(0, 0)))
    paged: list[bytes] = []
    place = PeekPlace(0, 0)
    for _ in range(12):
        one = peeked(other, place, count=1)
        paged += bodies(one)
        place = one.next
    assert (
        paged
        == everything
        == [b"3", b"7", b"11", b"2", b"6", b"10", b"1", b"5", b"9", b"0", b"4", b"8"]
    )


def test_a_selector_chooses_and_steps_are_bounded(broker: Broker) -> None:
    queue = broker.vhost.queue("q")
    for number in range(STEP_LOOKED_AT + 10):
        queue.enqueue(message(b"%d" % number, headers={"n": number}), broker.now)
    selector = Selector.parse(f"n >= {STEP_LOOKED_AT}")
    peek = Peek(queue, PeekPlace(0, 0), selector, 5, ROOM, ROOM)
    assert peek.step(broker.now)
    assert (peek.looked_at, peek.found) == (STEP_LOOKED_AT, [])
    assert not peek.step(broker.now)
    assert bodies(peek) == numbers(STEP_LOOKED_AT, STEP_LOOKED_AT + 5)


def test_a_step_reads_no_more_than_so_many_bytes(broker: Broker) -> None:
    broker.put("q", *[b"x" * (STEP_BYTES // 4)] * 9)
    peek = Peek(broker.vhost.queue("q"), PeekPlace(0, 0), Selector.parse("a = 1"), 9, ROOM, ROOM)
    seen = [0]
    while peek.step(broker.now):
        seen.append(peek.looked_at)
    assert seen == [0, 4, 8]
    assert peek.looked_at == 9


def test_bytes_of_headers_count_as_those_of_bodies_do(broker: Broker) -> None:
    queue = broker.vhost.queue("q")
    for _ in range(9):
        queue.enqueue(message(b"", headers={"a": "x" * (STEP_BYTES // 4)}), broker.now)
    peek = Peek(queue, PeekPlace(0, 0), Selector.parse("b = 1"), 9, ROOM, ROOM)
    seen = [0]
    while peek.step(broker.now):
        seen.append(peek.looked_at)
    assert seen == [0, 4, 8]
    answer = peeked(broker, PeekPlace(0, 0), answer_bytes=STEP_BYTES // 2)
    assert (len(answer.found), answer.is_at_end) == (2, False)


def test_a_peek_that_finds_nothing_ends_and_says_where(broker: Broker) -> None:
    queue = broker.vhost.queue("q")
    for _ in range(LOOKED_AT_MAX + 5):
        queue.enqueue(message(b""), broker.now)
    peek = peeked(broker, PeekPlace(0, 0), selector="nothing = 1")
    assert (peek.looked_at, peek.is_at_end) == (LOOKED_AT_MAX, False)
    assert peek.next.position == LOOKED_AT_MAX + 1


def test_an_answer_ends_when_it_is_large_enough(broker: Broker) -> None:
    broker.put("q", *[b"x" * 1_000] * 3)
    assert len(peeked(broker, PeekPlace(0, 0), answer_bytes=2_000).found) == 2


def test_a_stream_is_peeked_at_by_offset(broker: Broker) -> None:
    other = Broker()
    other.declare("q", arguments={"x-queue-type": "stream"})
    other.tick()
    other.put("q", *numbers(0, 600))
    other.rest()
    peek = peeked(other, PeekPlace(0, 590))
    assert bodies(peek) == numbers(590, 600)
    assert peek.next.position == 600
    assert [one.position for one in peek.found] == list(range(590, 600))


def test_messages_know_their_age_and_expiry(broker: Broker) -> None:
    queue = broker.vhost.queue("q")
    queue.enqueue(message(b"1", expiration="60000"), broker.now)
    now = broker.now
    broker.now += 5_000
    found = peeked(broker, PeekPlace(0, 0)).found[0]
    assert (found.age_ms, found.expires_at) == (5_000, now + 60_000)


def test_what_is_out_is_peeked_at_in_order(broker: Broker) -> None:
    broker.put("q", *numbers(0, 6))
    out = [broker.get("q") for _ in range(5)]
    peek = Peek(broker.vhost.queue("q"), PeekPlace(0, 0), None, 2, ROOM, ROOM)
    held = PeekAtHeld(peek, out[1].position, out[::-1])
    while held.step(broker.now):
        pass
    assert bodies(peek) == numbers(1, 3)
    assert held.next_position == out[3].position
    assert not peek.is_at_end
