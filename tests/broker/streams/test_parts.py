"""The small parts of a stream: where to begin, what to want, who published, what is kept."""

import pytest

from penstock.broker.errors import PreconditionFailed
from penstock.broker.header_values import Timestamp
from penstock.broker.intervals import milliseconds_of
from penstock.broker.queues.reading import StartKind, start_of
from penstock.broker.sent import Sent, sent_of
from penstock.broker.streams.filters import PATTERNS_MAX, StreamFilter, filter_of
from penstock.broker.streams.publishers import PUBLISHERS_MAX, Publishers
from penstock.broker.streams.tail import TAIL_BYTES_MAX, TAIL_COUNT_MAX, StreamTail
from tests.broker.streams.doubles import message


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1s", 1000),
        ("2m", 120_000),
        ("3h", 10_800_000),
        ("1D", 86_400_000),
        ("1M", 30 * 86_400_000),
        ("1Y", 365 * 86_400_000),
        ("007s", 7000),
        ("0s", -1),
        ("s", -1),
        ("", -1),
        ("5", -1),
        ("-1h", -1),
        ("1.5h", -1),
        ("1H", -1),
        ("٣h", -1),
        ("9999999999h", -1),
    ],
)
def test_an_interval_is_a_count_and_a_unit(text: str, milliseconds: int) -> None:
    assert milliseconds_of(text) == milliseconds


@pytest.mark.parametrize(
    ("arguments", "has_cursor", "kind", "value"),
    [
        ({}, False, StartKind.NEXT, 0),
        ({}, True, StartKind.CURSOR, 0),
        ({"x-stream-offset": "cursor"}, True, StartKind.CURSOR, 0),
        ({"x-stream-offset": "first"}, True, StartKind.FIRST, 0),
        ({"x-stream-offset": "last"}, False, StartKind.LAST, 0),
        ({"x-stream-offset": 7}, False, StartKind.OFFSET, 7),
        ({"x-stream-offset": -7}, False, StartKind.OFFSET, 0),
        ({"x-stream-offset": Timestamp(7)}, False, StartKind.TIMESTAMP, 7000),
        ({"x-stream-offset": "7s"}, False, StartKind.INTERVAL, 7000),
    ],
)
def test_a_start_is_read_from_the_arguments(
    arguments: dict[str, object], has_cursor: bool, kind: StartKind, value: int
) -> None:
    start = start_of("queue 's' in vhost '/'", arguments, has_cursor)
    assert (start.kind, start.value) == (kind, value)


def test_a_cursor_is_no_start_without_a_name() -> None:
    with pytest.raises(PreconditionFailed, match="invalid_stream_offset_arg"):
        start_of("queue 's' in vhost '/'", {"x-stream-offset": "cursor"}, False)


def test_a_filter_wants_key_and_headers() -> None:
    wanted = StreamFilter(["a.*", "b.#"], {"colour": "red"})
    assert wanted.wants(message(b"", "a.b", colour="red"))
    assert wanted.wants(message(b"", "b", colour="red"))
    assert not wanted.wants(message(b"", "a.b", colour="blue"))
    assert not wanted.wants(message(b"", "a", colour="red"))


def test_without_arguments_there_is_no_filter() -> None:
    assert filter_of("queue 's'", {"x-stream-offset": "first"}) is None


def test_a_filter_has_a_limit() -> None:
    patterns = [str(number) for number in range(PATTERNS_MAX + 1)]
    with pytest.raises(PreconditionFailed, match="more than 1000 patterns"):
        filter_of("queue 's'", {"x-stream-filter-routing-key": patterns})


@pytest.mark.parametrize(
    ("publisher", "sequence"),
    [
        ("", 1),
        ("p" * 256, 1),
        (5, 1),
        ("p", "1"),
        ("p", True),
        ("p", -1),
        ("p", 1.0),
        ("p", 2**63),
        ("p", None),
    ],
)
def test_what_does_not_name_a_publisher_and_a_count_is_an_ordinary_message(
    publisher: object, sequence: object
) -> None:
    plain = message(b"", x_publisher_id=publisher, x_publisher_sequence=sequence)
    assert sent_of(plain.properties) is None


def test_the_publisher_that_was_silent_for_longest_is_forgotten() -> None:
    publishers = Publishers()
    for number in range(PUBLISHERS_MAX):
        assert not publishers.check_and_note(Sent(str(number), 1))
    assert publishers.check_and_note(Sent("0", 1))
    assert not publishers.check_and_note(Sent("new", 1))
    assert len(publishers.sequences) == PUBLISHERS_MAX
    assert publishers.check_and_note(Sent("0", 1))
    assert not publishers.check_and_note(Sent("1", 1))


def test_a_tail_is_bounded_by_count_and_octets() -> None:
    tail = StreamTail()
    for offset in range(TAIL_COUNT_MAX + 1):
        tail.append(message(b"x"), offset)
    tail.trim()
    assert not tail.holds(0)
    assert tail.holds(TAIL_COUNT_MAX)
    assert [one.body for one in tail.run(TAIL_COUNT_MAX, 5)] == [b"x"]
    tail.append(message(bytes(TAIL_BYTES_MAX + 1)), TAIL_COUNT_MAX + 1)
    tail.trim()
    assert not tail.holds(TAIL_COUNT_MAX + 1)


def test_a_tail_begins_anew_behind_a_gap() -> None:
    tail = StreamTail()
    tail.append(message(b"a"), 5)
    tail.append(message(b"b"), 9)
    assert not tail.holds(5)
    assert tail.holds(9)
