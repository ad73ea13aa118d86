"""A stream keeps what it holds and gives it to every reader, from memory or from its log."""

import pytest

from penstock.broker.errors import AccessRefused, NotImplementedHere
from penstock.broker.queues.consumers import BATCH_BYTES_MAX
from penstock.broker.queues.reading import Start, StartKind
from penstock.broker.streams.filters import StreamFilter
from penstock.broker.streams.stream import PASSED_OVER_MAX
from penstock.broker.topology import DeleteQueue, PurgeQueue, SetPolicy
from penstock.storage.memory_disk import MemoryDisk
from penstock.world.disk import AppendFile, DiskError
from tests.broker.streams.doubles import NEXT, Host, Reading, message, put, read


def test_readers_at_the_end_are_served_from_memory() -> None:
    host = Host()
    stream = host.declare()
    one, two = read(stream, NEXT), read(stream, NEXT)
    put(host, b"a", b"b")
    put(host, b"c")
    assert one.bodies == two.bodies == [b"a", b"b", b"c"]
    assert one.offsets == [0, 1, 2]
    assert host.decoder.decoded == 0


def test_a_reader_that_is_behind_reads_the_log_in_pieces() -> None:
    host = Host()
    stream = host.declare()
    for number in range(1000):
        put(host, b"%d" % number)
    reader = read(stream, credit=10_000)
    host.tick()
    assert reader.bodies == [b"%d" % number for number in range(1000)]
    assert max(reader.batches) <= 128
    assert host.decoder.decoded == 1


def test_a_batch_holds_few_large_messages() -> None:
    host = Host()
    stream = host.declare()
    for _ in range(10):
        put(host, bytes(BATCH_BYTES_MAX))
    reader = read(stream)
    host.tick()
    assert reader.batches == [1] * 10


def test_a_message_that_was_given_away_is_not_kept() -> None:
    host = Host()
    stream = host.declare()
    put(host, b"large")
    reader = read(stream)
    host.tick()
    assert reader.entries[0].message.body == b""


def test_a_slow_reader_goes_on_where_it_stopped() -> None:
    host = Host()
    stream = host.declare()
    put(host, *[b"%d" % number for number in range(10)])
    reader = read(stream, credit=3)
    host.tick()
    assert reader.offsets == [0, 1, 2]
    for _ in range(7):
        stream.acknowledge(reader.entries[-1])
        reader.credit += 1
        stream.touch()
        host.tick()
    assert reader.offsets == list(range(10))
    assert host.decoder.decoded == 1
    assert stream.message_count == 10


def test_requeued_and_rejected_messages_do_not_come_again() -> None:
    host = Host()
    stream = host.declare()
    put(host, b"a", b"b")
    reader = read(stream)
    host.tick()
    stream.requeue(reader.entries[:1], 0)
    stream.reject(reader.entries[1], 0)
    host.tick()
    assert reader.offsets == [0, 1]
    assert stream.unacked_count == 0


def test_an_exclusive_reader_is_alone() -> None:
    host = Host()
    stream = host.declare()
    alone = Reading()
    alone.exclusive = True
    stream.add_consumer(alone)
    with pytest.raises(AccessRefused):
        read(stream)


def test_readers_begin_by_time() -> None:
    host = Host()
    stream = host.declare()
    for host.now in (1000, 2000, 3000):
        put(host, b"%d" % host.now)
    host.now = 3500
    by_time = read(stream, Start(StartKind.TIMESTAMP, 1500), now=host.now)
    by_age = read(stream, Start(StartKind.INTERVAL, 1000), now=host.now)
    host.tick()
    assert by_time.bodies == [b"2000", b"3000"]
    assert by_age.bodies == [b"3000"]


def test_what_a_classic_queue_could_do_is_refused() -> None:
    host = Host()
    stream = host.declare()
    with pytest.raises(NotImplementedHere, match=r"basic\.get not supported by stream queues"):
        stream.get(0)
    with pytest.raises(NotImplementedHere, match=r"queue\.purge not supported by stream queues"):
        host.vhost.apply(PurgeQueue("s"), 0)


def test_an_operator_can_look_at_the_first_messages() -> None:
    host = Host()
    stream = host.declare()
    put(host, b"a", b"b", b"c")
    assert [entry.message.body for entry in stream.browse(2)] == [b"a", b"b"]


# Retention.


def test_size_is_bounded_as_segments_fill() -> None:
    host = Host()
    stream = host.declare(max_length_bytes=2000, stream_max_segment_size_bytes=500)
    for _ in range(100):
        put(host, b"x" * 50)
    assert stream.first_offset > 50
    assert stream.files.log.size() <= 2500
    reader = read(stream)
    host.tick()
    assert reader.offsets == list(range(stream.first_offset, 100))


def test_age_is_looked_at_without_publishes() -> None:
    host = Host()
    stream = host.declare(max_age="1m", stream_max_segment_size_bytes=100)
    put(host, b"x" * 50)
    put(host, b"y")
    assert stream.message_count == 2
    host.pass_time(59_000)
    assert stream.message_count == 2
    put(host, b"z" * 50)
    host.pass_time(15_000)
    assert stream.first_offset == 2


def test_a_policy_bounds_a_stream_that_is_there() -> None:
    host = Host()
    stream = host.declare(stream_max_segment_size_bytes=100)
    for _ in range(10):
        put(host, b"x" * 100)
    assert stream.message_count == 10
    host.vhost.apply(SetPolicy("p", "s", {"max-length-bytes": 400}, "streams"), host.now)
    assert stream.message_count < 5


def test_a_reader_whose_messages_were_removed_goes_on_with_the_oldest() -> None:
    host = Host()
    stream = host.declare(max_length_bytes=1000, stream_max_segment_size_bytes=200)
    put(host, b"first")
    reader = read(stream, credit=1)
    host.tick()
    for _ in range(50):
        put(host, b"x" * 50)
    reader.credit = 1000
    stream.touch()
    host.tick()
    assert reader.offsets == [0, *range(stream.first_offset, 51)]


def test_a_deleted_stream_leaves_nothing_and_tells_its_readers() -> None:
    host = Host()
    stream = host.declare(max_length_bytes=1000, stream_max_segment_size_bytes=200)
    reader = read(stream, cursor="c")
    for _ in range(10):
        put(host, b"x" * 50)
    stream.enqueue(message(b"in the same tick"), 0)
    host.vhost.apply(DeleteQueue("s"), 0)
    host.tick()
    host.pass_time(1_000_000)
    assert reader.heard_cancel
    assert host.disk.names() == []


def test_a_filter_and_little_credit_go_together() -> None:
    host = Host()
    stream = host.declare()
    for number in range(300):
        put(host, b"", key="wanted" if number % 100 == 99 else "other")
    reader = read(stream, credit=2, wanted=StreamFilter(["wanted"], None))
    host.tick()
    assert reader.offsets == [99, 199]


def test_a_reader_goes_on_when_retention_left_nothing_for_it() -> None:
    host = Host()
    stream = host.declare(stream_max_segment_size_bytes=100)
    put(host, b"x" * 100)
    reader = read(stream)
    stream.files.log.roll()
    stream.files.limit(0, -1, 100)
    stream.files.retain(0)
    assert stream.first_offset == 1
    host.tick()
    assert reader.bodies == []
    put(host, b"y")
    assert reader.offsets == [1]


# Publishers.


def test_a_repeated_message_is_accepted_and_not_stored() -> None:
    host = Host()
    stream = host.declare()
    for sequence in (1, 2, 2, 1, 5, 3):
        repeated = message(b"%d" % sequence, x_publisher_id="p", x_publisher_sequence=sequence)
        assert stream.enqueue(repeated, 0)
    host.tick()
    assert [entry.message.body for entry in stream.browse(10)] == [b"1", b"2", b"5"]


# Filters.


def test_a_filter_that_wants_little_does_not_hold_the_tick() -> None:
    host = Host()
    stream = host.declare()
    put(host, *[b"x"] * (2 * PASSED_OVER_MAX))
    put(host, b"found", key="wanted")
    reader = read(stream, wanted=StreamFilter(["wanted"], None))
    host.tick()
    assert reader.bodies == []
    ticks = 0
    while not reader.bodies:
        assert host.vhost.touched, "it asked for another tick"
        host.tick()
        ticks += 1
    assert ticks >= 2
    assert reader.offsets == [2 * PASSED_OVER_MAX]
    host.tick()
    assert not host.vhost.touched


# Safety.


def test_readers_see_only_what_is_safe() -> None:
    host = Host(is_flushed=True)
    stream = host.declare()
    reader = read(stream, NEXT)
    put(host, b"a")
    put(host, b"b")
    assert reader.bodies == []
    assert stream.message_count == 2
    host.flush()
    host.tick()
    assert reader.bodies == [b"a", b"b"]


def test_a_flush_covers_what_was_written_when_it_was_asked_for() -> None:
    host = Host(is_flushed=True)
    stream = host.declare()
    reader = read(stream, NEXT)
    put(host, b"a")
    host.store.take_dirty(10)
    put(host, b"b")
    host.store.take_dirty(20)
    host.store.became_durable(10, 0)
    host.tick()
    assert reader.bodies == [b"a"]
    host.store.became_durable(25, 0)
    host.tick()
    assert reader.bodies == [b"a", b"b"]


def test_confirms_wait_where_there_is_a_flush() -> None:
    for is_flushed in (True, False):
        stream = Host(is_flushed=is_flushed).declare()
        new = message(b"", x_publisher_id="p", x_publisher_sequence=1)
        repeated = message(b"", x_publisher_id="p", x_publisher_sequence=1)
        stream.enqueue(new, 0)
        stream.enqueue(repeated, 0)
        assert new.is_journalled == repeated.is_journalled == is_flushed


class FullFile(AppendFile):
    """Takes nothing more once its disk is full."""

    def __init__(self, disk: "FullDisk", file: AppendFile) -> None:
        self._disk = disk
        self._file = file

    def size(self) -> int:
        return self._file.size()

    def append(self, data: bytes) -> int:
        if self._disk.is_full:
            raise DiskError("no space left")
        return self._file.append(data)

    def read(self, position: int, size: int) -> bytes:
        return self._file.read(position, size)

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def close(self) -> None:
        self._file.close()


class FullDisk(MemoryDisk):
    def __init__(self) -> None:
        super().__init__()
        self.is_full = False

    def open(self, name: str) -> AppendFile:
        return FullFile(self, super().open(name))


def test_a_disk_that_fails_is_told_to_who_flushes() -> None:
    disk = FullDisk()
    host = Host(disk, is_flushed=True)
    stream = host.declare(stream_max_segment_size_bytes=100)
    reader = read(stream, NEXT)
    put(host, b"x" * 100)
    host.flush()
    host.tick()
    disk.is_full = True
    put(host, b"lost")
    put(host, b"lost")
    assert host.store.is_dirty()
    with pytest.raises(DiskError, match="no space left"):
        host.store.take_dirty(99)
    assert reader.bodies == [b"x" * 100]


def test_a_reader_that_meets_damage_is_cancelled_and_others_go_on() -> None:
    host = Host()
    stream = host.declare()
    put(host, b"good", b"bad!", b"good")
    content = host.disk.files[host.disk.names()[1]].content
    content[content.index(b"bad!")] ^= 1
    unlucky = read(stream)
    lucky = read(stream, Start(StartKind.OFFSET, 2))
    host.tick()
    assert unlucky.bodies == [b"good"]
    assert unlucky.heard_cancel
    assert "message 1 is damaged" in stream.damage
    assert lucky.bodies == [b"good"]
    put(host, b"more")
    assert lucky.bodies == [b"good", b"more"]
