"""Named cursors: what settling moves, what an operator sets, and what is written down."""

import pytest

from penstock.broker.entry import QueueEntry
from penstock.broker.errors import NotFound, PreconditionFailed
from penstock.broker.streams.cursors import CURSORS_MAX
from penstock.broker.streams.filters import StreamFilter
from penstock.broker.streams.read_position import StreamReader
from penstock.storage.number_table import ReadNumbers
from tests.broker.streams.doubles import CURSOR, FIRST, Host, message, put, read


def test_a_cursor_follows_what_is_settled_without_gaps() -> None:
    host = Host()
    stream = host.declare()
    put(host, *[b"%d" % number for number in range(5)])
    reader = read(stream, cursor="c")
    host.tick()
    assert stream.cursors() == [("c", 0, 5)]
    for settled, done in [(1, -1), (0, 1), (3, 1), (4, 1)]:
        stream.acknowledge(reader.entries[settled])
        stream.touch()
        host.tick()
        assert stream.cursors() == [("c", done + 1, 4 - done)]
    stream.reject(reader.entries[2], 0)
    stream.touch()
    host.tick()
    assert stream.cursors() == [("c", 5, 0)]


def test_a_cursor_does_not_pass_what_was_given_back() -> None:
    host = Host()
    stream = host.declare()
    put(host, b"0", b"1", b"2")
    reader = read(stream, cursor="c")
    host.tick()
    stream.acknowledge(reader.entries[0])
    stream.requeue(reader.entries[1:2], 0)
    stream.acknowledge(reader.entries[2])
    stream.remove_consumer(reader, 0)
    assert stream.cursors() == [("c", 1, 2)]
    again = read(stream, CURSOR, cursor="c")
    host.tick()
    assert again.offsets == [1, 2]


def test_a_reader_that_gave_one_message_back_remembers_no_more_for_it() -> None:
    reader = StreamReader(0, "c", None)
    for offset in range(100):
        reader.gave([QueueEntry(message(b""), offset)])
        reader.position += 1
    reader.given_back(50)
    reader.given_back(60)
    for offset in range(100):
        if offset not in {20, 50, 60}:
            reader.settled(offset)
    assert reader.next_offset() == 20
    reader.settled(20)
    reader.gave([QueueEntry(message(b""), 100)])
    reader.settled(100)
    assert reader.next_offset() == 50
    assert not reader._outstanding and not reader._settled


def test_a_reader_that_ends_late_does_not_set_its_cursor_back() -> None:
    host = Host()
    stream = host.declare()
    put(host, *[b""] * 6)
    stale = read(stream, cursor="c")
    host.tick()
    stream.acknowledge(stale.entries[0])
    host.tick()
    newer = read(stream, CURSOR, cursor="c")
    host.tick()
    assert newer.offsets == [1, 2, 3, 4, 5]
    for entry in newer.entries[:4]:
        stream.acknowledge(entry)
    host.tick()
    assert stream.cursors() == [("c", 5, 1)]
    stream.acknowledge(stale.entries[1])
    host.tick()
    assert stream.cursors() == [("c", 5, 1)], "acknowledged late"
    stream.remove_consumer(stale, 0)
    assert stream.cursors() == [("c", 5, 1)]


@pytest.mark.parametrize("offset", [0, 5])
def test_a_cursor_that_was_set_stays_when_its_reader_only_ends(offset: int) -> None:
    host = Host()
    stream = host.declare()
    put(host, *[b""] * 6)
    reader = read(stream, cursor="c")
    host.tick()
    for entry in reader.entries[:3]:
        stream.acknowledge(entry)
    host.tick()
    stream.set_cursor("c", offset, 0)
    stream.remove_consumer(reader, 0)
    assert stream.cursors() == [("c", offset, 6 - offset)]


def test_a_cursor_that_was_set_back_goes_on_with_the_next_acknowledgement() -> None:
    host = Host()
    stream = host.declare()
    put(host, *[b""] * 6)
    reader = read(stream, cursor="c")
    host.tick()
    stream.acknowledge(reader.entries[0])
    host.tick()
    stream.set_cursor("c", 0, 0)
    stream.acknowledge(reader.entries[1])
    host.tick()
    assert stream.cursors() == [("c", 2, 4)]


def test_a_reader_with_an_offset_of_its_own_begins_the_cursor_anew() -> None:
    host = Host()
    stream = host.declare()
    put(host, *[b""] * 6)
    stale = read(stream, cursor="c")
    host.tick()
    for entry in stale.entries[:4]:
        stream.acknowledge(entry)
    host.tick()
    assert stream.cursors() == [("c", 4, 2)]
    again = read(stream, FIRST, cursor="c")
    assert stream.cursors() == [("c", 0, 6)]
    host.tick()
    stream.acknowledge(again.entries[0])
    host.tick()
    assert stream.cursors() == [("c", 1, 5)]
    stream.acknowledge(stale.entries[4])
    host.tick()
    stream.remove_consumer(stale, 0)
    assert stream.cursors() == [("c", 1, 5)], "who came before moves it no more"
    stream.delete_cursor("c")
    stream.acknowledge(again.entries[1])
    host.tick()
    assert stream.cursors() == [("c", 2, 4)]


def test_what_is_acknowledged_after_a_reader_left_moves_its_cursor() -> None:
    host = Host()
    stream = host.declare()
    put(host, b"0", b"1")
    reader = read(stream, cursor="c")
    host.tick()
    stream.remove_consumer(reader, 0)
    assert stream.cursors() == [("c", 0, 2)]
    stream.acknowledge(reader.entries[0])
    host.tick()
    assert stream.cursors() == [("c", 1, 1)]


def test_a_cursor_passes_what_a_filter_does_not_want() -> None:
    host = Host()
    stream = host.declare()
    read(stream, cursor="c", wanted=StreamFilter(["wanted"], None))
    put(host, b"0", b"1", key="other")
    assert stream.cursors() == [("c", 2, 0)]


def test_cursors_are_written_now_and_then_and_when_a_reader_leaves() -> None:
    host = Host()
    stream = host.declare()
    put(host, *[b""] * 10)
    reader = read(stream, cursor="c")
    host.tick()
    name = host.disk.names()[-1]
    assert "cursors" in name
    size = host.disk.files[name].size()
    for entry in reader.entries[:5]:
        stream.acknowledge(entry)
        stream.touch()
        host.tick()
    assert host.disk.files[name].size() == size
    host.pass_time(100)
    grown = host.disk.files[name].size()
    assert grown > size
    stream.acknowledge(reader.entries[5])
    stream.remove_consumer(reader, 0)
    assert host.disk.files[name].size() > grown


def test_a_cursor_can_be_deleted() -> None:
    host = Host()
    stream = host.declare()
    read(stream, cursor="c")
    stream.delete_cursor("c")
    assert stream.cursors() == []
    with pytest.raises(NotFound, match="no cursor 'c' of queue 's' in vhost '/'"):
        stream.delete_cursor("c")


def test_a_cursor_that_was_set_says_where_a_reader_begins_and_what_is_behind() -> None:
    host = Host()
    stream = host.declare()
    put(host, b"0", b"1", b"2")
    stream.set_cursor("late", 3, 0)
    stream.set_cursor("early", 0, 0)
    stream.set_cursor("early", 1, 0)
    assert sorted(stream.cursors()) == [("early", 1, 2), ("late", 3, 0)]
    reader = read(stream, CURSOR, cursor="early")
    host.tick()
    assert reader.offsets == [1, 2]


def test_the_lag_does_not_count_what_retention_removed() -> None:
    host = Host()
    stream = host.declare(stream_max_segment_size_bytes=100, max_length_bytes=1)
    stream.set_cursor("c", 0, 0)
    for _ in range(5):
        put(host, b"x" * 100)
    assert stream.first_offset == 4
    assert stream.cursors() == [("c", 0, 1)]


def test_a_cursor_that_was_set_is_safe_with_the_next_flush() -> None:
    host = Host(is_flushed=True)
    stream = host.declare()
    host.flush()
    assert not host.store.is_dirty()
    stream.set_cursor("c", 0, 0)
    assert host.store.is_dirty()
    files = host.store.take_dirty(9)
    written = b"".join([file.read(0, file.size()) for file in files])
    assert ReadNumbers(written).numbers == {"c": -1}


@pytest.mark.parametrize(("name", "offset"), [("", 0), ("n" * 256, 0), ("c", -1), ("c", 2)])
def test_a_cursor_that_cannot_be_is_refused(name: str, offset: int) -> None:
    host = Host()
    stream = host.declare()
    put(host, b"0")
    with pytest.raises(PreconditionFailed):
        stream.set_cursor(name, offset, 0)
    assert stream.cursors() == []


def test_a_stream_has_room_for_so_many_cursors() -> None:
    host = Host()
    stream = host.declare()
    for number in range(CURSORS_MAX):
        stream.files.cursors.put(f"c{number}", -1)
    with pytest.raises(PreconditionFailed, match="cannot have more cursors"):
        stream.set_cursor("one more", 0, 0)
    with pytest.raises(PreconditionFailed, match="cannot have more cursors"):
        read(stream, cursor="one more")
    assert stream.consumers.count == 0
    stream.set_cursor("c0", 0, 0)
