"""A short run of the server's fuzzer, and that it would notice."""

from pathlib import Path
from random import Random

import pytest

from penstock.wire.amqp091.methods_generated import ConnectionClose
from penstock.wire.amqp10.conditions_generated import INTERNAL_ERROR, NOT_FOUND
from penstock.wire.amqp10.performatives_generated import Close, Error
from tests.fuzz import amqp091, amqp10, http
from tests.fuzz.__main__ import fuzz, grown
from tests.fuzz.judging import Verdict, WrongAnswer
from tests.fuzz.target import ALARMING
from tests.wire.amqp10.doubles import frame
from tests.wire.doubles import method_frame

# Enough for every kind of word; the long run is a command of its own.
CONVERSATIONS = 1_500


@pytest.mark.slow
def test_odd_conversations_with_a_server_end_in_answers_of_the_protocol(tmp_path: Path) -> None:
    record = fuzz(tmp_path, CONVERSATIONS, seed=7, workers=2)
    assert record["problems"] == []
    answers = record["answers"]
    assert isinstance(answers, dict)
    assert {"channel.close 404", "http 404", "close"} <= set(answers)


def test_an_internal_error_of_amqp_091_is_a_wrong_answer() -> None:
    verdict = Verdict()
    amqp091.judge(method_frame(0, ConnectionClose(504, "", 0, 0)), False, verdict)
    assert verdict.answers == {"connection.close 504": 1}
    with pytest.raises(WrongAnswer):
        amqp091.judge(method_frame(0, ConnectionClose(541, "", 0, 0)), False, verdict)


def test_a_cut_frame_is_a_wrong_answer_unless_the_connection_was_reset() -> None:
    for judge, said in (
        (amqp091.judge, method_frame(0, ConnectionClose(504, "", 0, 0))),
        (amqp10.judge, frame(0, Close())),
    ):
        judge(said[:-3], True, Verdict())
        with pytest.raises(WrongAnswer):
            judge(said[:-3], False, Verdict())


def test_an_internal_error_of_amqp_10_is_a_wrong_answer() -> None:
    amqp10.judge(frame(0, Close(Error(NOT_FOUND))), False, Verdict())
    with pytest.raises(WrongAnswer):
        amqp10.judge(frame(0, Close(Error(INTERNAL_ERROR))), False, Verdict())


def test_500_and_silence_are_wrong_answers_of_http() -> None:
    http.judge(b"HTTP/1.1 404 Not Found\r\n\r\n", True, Verdict())
    for reply in (b"HTTP/1.1 500 Internal Server Error\r\n\r\n", b"", b"nonsense"):
        with pytest.raises(WrongAnswer):
            http.judge(reply, True, Verdict())


def test_growth_is_noticed() -> None:
    megabyte = 1 << 20
    assert grown([100 * megabyte] * 20) == []
    assert grown([(100 + 10 * number) * megabyte for number in range(20)]) != []


def test_tracebacks_and_errors_in_the_log_are_noticed() -> None:
    assert ALARMING.search("Traceback (most recent call last):")
    assert ALARMING.search("2026-01-01 [error    ] connection failed")
    assert not ALARMING.search("2026-01-01 [info     ] ready")


def test_the_same_seed_says_the_same() -> None:
    for maker in (amqp091.Conversations091, amqp10.Conversations10):
        one, other = maker(Random(5)), maker(Random(5))
        assert [one.next() for _ in range(50)] == [other.next() for _ in range(50)]
