"""Publisher confirms: every publish is answered once, in order, with as few frames as can be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.dialects.amqp091.confirms import Confirms
from penstock.dialects.container import Durability, EndOfTickAnswer
from penstock.formats.amqp091_frames import METHOD_FRAME, encode_frame
from penstock.wire.amqp091.methods_generated import BasicAck, BasicNack, decode_method
from penstock.wire.outgoing import Outgoing
from tests.dialects.amqp091.doubles import RecordingTransport


def make_confirms() -> tuple[Confirms, Outgoing]:
    flush_list: list[Outgoing] = []
    outgoing = Outgoing(flush_list, RecordingTransport())
    return Confirms([], outgoing, 1, Durability()), outgoing


def said(outgoing: Outgoing) -> list[str]:
    """The frames that are pending, in words."""
    found = []
    for frame in outgoing.pieces:
        method = decode_method(frame[7:-1])
        assert isinstance(method, (BasicAck, BasicNack))
        word = "ack" if isinstance(method, BasicAck) else "nack"
        found.append(f"{word} {method.delivery_tag}{' multiple' if method.multiple else ''}")
    outgoing.pieces.clear()
    return found


def test_many_publishes_are_confirmed_with_one_frame() -> None:
    confirms, outgoing = make_confirms()
    for _ in range(100):
        confirms.next()
    confirms.flush()
    assert said(outgoing) == ["ack 100 multiple"]
    confirms.next()
    confirms.flush()
    assert said(outgoing) == ["ack 101"]
    confirms.flush()
    assert said(outgoing) == []


def test_a_held_message_keeps_later_confirms_back() -> None:
    confirms, outgoing = make_confirms()
    for _ in range(3):
        confirms.next()
    confirms.held(2)
    confirms.flush()
    assert said(outgoing) == ["ack 1"]
    confirms.completed(2)
    confirms.flush()
    assert said(outgoing) == ["ack 3 multiple"]


def test_a_refused_message_is_answered_negatively_between_the_others() -> None:
    confirms, outgoing = make_confirms()
    for _ in range(5):
        confirms.next()
    confirms.refused(3)
    confirms.flush()
    assert said(outgoing) == ["ack 2 multiple", "nack 3", "ack 5 multiple"]


def test_a_message_that_was_held_and_given_up_is_answered_negatively_in_its_place() -> None:
    confirms, outgoing = make_confirms()
    for _ in range(3):
        confirms.next()
    confirms.held(2)
    confirms.flush()
    assert said(outgoing) == ["ack 1"]
    confirms.refused(2)
    confirms.flush()
    assert said(outgoing) == []
    confirms.completed(2)
    confirms.flush()
    assert said(outgoing) == ["nack 2", "ack 3"]


def test_what_was_written_down_is_confirmed_when_it_is_safe_and_not_before() -> None:
    durability = Durability()
    outgoing = Outgoing([], RecordingTransport())
    confirms = Confirms([], outgoing, 1, durability)
    confirms.next()
    confirms.journalled(confirms.next())
    confirms.next()
    durability.written = 100
    confirms.flush()
    assert said(outgoing) == ["ack 1"]
    assert confirms.is_waiting()
    confirms.journalled(confirms.next())
    durability.written = 200
    durability.durable = 100
    confirms.flush()
    assert said(outgoing) == ["ack 3 multiple"]
    durability.durable = 200
    confirms.flush()
    assert said(outgoing) == ["ack 4"]
    assert not confirms.is_waiting()


def test_a_closed_channel_says_nothing_more() -> None:
    confirms, outgoing = make_confirms()
    confirms.next()
    confirms.closed = True
    confirms.flush()
    assert said(outgoing) == []


@given(
    fates=st.lists(st.sampled_from(["done", "held", "given up", "refused", "both"]), max_size=60),
    order=st.randoms(use_true_random=False),
)
def test_every_publish_is_answered_exactly_once_and_in_order(
    fates: list[str], order: object
) -> None:
    import random

    assert isinstance(order, random.Random)
    confirms, outgoing = make_confirms()
    held: list[int] = []
    answers: list[str] = []
    for fate in fates:
        sequence = confirms.next()
        if fate in {"held", "given up", "both"}:
            confirms.held(sequence)
            held.append(sequence)
        if fate in {"refused", "both"}:
            confirms.refused(sequence)
        if order.random() < 0.3:
            confirms.flush()
            answers += said(outgoing)
    order.shuffle(held)
    for sequence in held:
        if fates[sequence - 1] != "held":
            confirms.refused(sequence)
        confirms.completed(sequence)
        if order.random() < 0.5:
            confirms.flush()
            answers += said(outgoing)
    confirms.flush()
    answers += said(outgoing)
    answered = 0
    for answer in answers:
        word, number, *multiple = answer.split()
        begin = answered + 1
        answered = int(number)
        assert multiple or begin == answered
        expected = "nack" if word == "nack" else "ack"
        for sequence in range(begin, answered + 1):
            is_refused = fates[sequence - 1] in {"given up", "refused", "both"}
            assert is_refused == (expected == "nack")
    assert answered == len(fates)


def make_listed(
    identity: str = "", number: int = 1
) -> tuple[Confirms, Outgoing, list[EndOfTickAnswer], Durability]:
    answers: list[EndOfTickAnswer] = []
    durability = Durability()
    outgoing = Outgoing([], RecordingTransport())
    return Confirms(answers, outgoing, number, durability, identity), outgoing, answers, durability


def test_a_channel_is_listed_once_per_tick_however_much_it_has_to_answer() -> None:
    confirms, _, answers, _ = make_listed()
    confirms.next()
    confirms.next()
    confirms.held(2)
    confirms.completed(2)
    confirms.became_durable()
    assert answers == [confirms]
    answers.clear()
    confirms.flush()
    confirms.next()
    assert answers == [confirms], "the next tick is another one"


def test_what_completes_in_a_later_tick_lists_the_channel_again() -> None:
    confirms, outgoing, answers, _ = make_listed()
    confirms.held(confirms.next())
    answers.clear()
    confirms.flush()
    assert (said(outgoing), answers) == ([], [])
    confirms.completed(1)
    assert answers == [confirms]
    answers.clear()
    confirms.flush()
    assert said(outgoing) == ["ack 1"]


def test_the_journal_lists_a_channel_again_when_more_of_it_is_durable() -> None:
    confirms, outgoing, answers, durability = make_listed()
    confirms.journalled(confirms.next())
    durability.written = 10
    answers.clear()
    confirms.flush()
    assert confirms.is_waiting()
    durability.durable = 10
    confirms.became_durable()
    assert answers == [confirms]
    confirms.flush()
    assert said(outgoing) == ["ack 1"]


def test_only_the_first_message_of_a_tick_that_was_written_down_is_waited_for() -> None:
    confirms, outgoing, _, durability = make_listed()
    for _ in range(3):
        confirms.journalled(confirms.next())
    durability.written = 10
    confirms.flush()
    confirms.next()
    durability.written = 20
    confirms.flush()
    assert said(outgoing) == []
    durability.durable = 9
    confirms.flush()
    assert said(outgoing) == []
    durability.durable = 10
    confirms.flush()
    assert said(outgoing) == ["ack 4 multiple"]


def test_holds_and_the_journal_bound_the_same_answer_and_the_lower_one_holds() -> None:
    confirms, outgoing, _, durability = make_listed()
    for _ in range(5):
        confirms.next()
    confirms.held(2)
    confirms.journalled(4)
    durability.written = 10
    confirms.flush()
    assert said(outgoing) == ["ack 1"]
    confirms.completed(2)
    confirms.flush()
    assert said(outgoing) == ["ack 3 multiple"]
    durability.durable = 10
    confirms.flush()
    assert said(outgoing) == ["ack 5 multiple"]


def test_a_hold_behind_the_journal_does_not_confirm_what_is_not_durable() -> None:
    confirms, outgoing, _, durability = make_listed()
    confirms.journalled(confirms.next())
    confirms.held(confirms.next())
    durability.written = 10
    confirms.flush()
    assert said(outgoing) == []
    durability.durable = 10
    confirms.flush()
    assert said(outgoing) == ["ack 1"]


def test_a_refusal_waits_for_what_is_before_it() -> None:
    confirms, outgoing, _, durability = make_listed()
    confirms.journalled(confirms.next())
    confirms.refused(confirms.next())
    confirms.refused(confirms.next())
    confirms.next()
    durability.written = 10
    confirms.flush()
    assert said(outgoing) == []
    durability.durable = 10
    confirms.flush()
    assert said(outgoing) == ["ack 1", "nack 2", "nack 3", "ack 4"]
    confirms.flush()
    assert said(outgoing) == []


def test_two_that_were_held_complete_in_any_order_and_are_confirmed_in_theirs() -> None:
    confirms, outgoing, _, _ = make_listed()
    for _ in range(3):
        confirms.held(confirms.next())
    confirms.completed(3)
    confirms.completed(2)
    confirms.flush()
    assert said(outgoing) == []
    confirms.completed(1)
    confirms.flush()
    assert said(outgoing) == ["ack 3 multiple"]


def test_a_channel_that_has_ended_waits_for_nothing() -> None:
    confirms, outgoing, answers, durability = make_listed()
    confirms.journalled(confirms.next())
    durability.written = 10
    confirms.flush()
    assert confirms.is_waiting()
    confirms.closed = True
    confirms.flush()
    assert not confirms.is_waiting()
    durability.durable = 10
    answers.clear()
    confirms.flush()
    assert said(outgoing) == []


@pytest.mark.parametrize("sequence", [1, 256, 2**32 + 1])
@pytest.mark.parametrize("number", [1, 258])
def test_answers_are_frames_of_their_channel(sequence: int, number: int) -> None:
    confirms, outgoing, _, _ = make_listed("who", number)
    confirms.sequence = sequence - 1
    confirms._answered = sequence - 1
    confirms.next()
    confirms.refused(confirms.next())
    confirms.flush()
    acked = encode_frame(METHOD_FRAME, number, BasicAck(sequence).encode())
    nacked = encode_frame(METHOD_FRAME, number, BasicNack(sequence + 1, False, False).encode())
    assert outgoing.pieces == [acked, nacked]
    assert confirms.outgoing_of() is outgoing
    assert confirms.identity() == "who"
