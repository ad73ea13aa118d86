"""After a restart a stream has its messages, cursors and publishers; what was deleted is gone."""

import pytest

from penstock.broker.streams.opening import open_streams
from penstock.broker.topology import DeclareExchange, DeclareQueue, DeleteQueue, VhostCommand
from penstock.storage.errors import Damaged
from penstock.storage.memory_disk import MemoryDisk
from tests.broker.streams.doubles import CURSOR, Host, message, put, read
from tests.storage.stream_writing import copy_of

DECLARED = DeclareQueue("s", durable=True, arguments={"x-queue-type": "stream"})
SMALL = DeclareQueue(
    "s",
    durable=True,
    arguments={"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 400},
)


def restarted(disk: MemoryDisk, *commands: VhostCommand) -> Host:
    """A host on what a crash left, with these definitions read back."""
    host = Host(copy_of(disk))
    host.vhost.shared.decides = False
    for command in commands:
        host.vhost.apply(command, 0)
    open_streams(host.store, host.vhost.queues.values(), 0)
    host.vhost.shared.decides = True
    return host


def test_messages_and_cursors_are_there_again() -> None:
    host = Host()
    host.vhost.apply(DECLARED, 0)
    put(host, b"a", b"b", b"c")
    reader = read(host.stream(), cursor="app")
    host.tick()
    host.stream().acknowledge(reader.entries[0])
    host.stream().remove_consumer(reader, 0)
    again = restarted(host.disk, DECLARED)
    assert again.stream().message_count == 3
    assert again.stream().cursors() == [("app", 1, again.stream().end_offset - 1)]
    reader = read(again.stream(), CURSOR, cursor="app")
    put(again, b"d")
    assert reader.bodies == [b"b", b"c", b"d"]
    assert reader.offsets == [1, 2, 3]


def publish(host: Host, publisher: str, sequence: int) -> bool:
    """Whether it landed."""
    before = host.stream().message_count
    sent = message(b"x" * 50, x_publisher_id=publisher, x_publisher_sequence=sequence)
    host.stream().enqueue(sent, 0)
    host.tick()
    return host.stream().message_count > before


def test_publishers_are_known_again_over_segments() -> None:
    host = Host()
    host.vhost.apply(SMALL, 0)
    assert publish(host, "early", 9)
    for sequence in range(20):
        assert publish(host, "p", sequence)
    assert len(host.stream().files.log.segments) > 3
    again = restarted(host.disk, SMALL)
    assert not publish(again, "p", 19)
    assert not publish(again, "early", 9)
    assert publish(again, "p", 20)
    assert publish(again, "new", 0)


def test_a_message_that_was_lost_may_be_published_again() -> None:
    host = Host()
    host.vhost.apply(DECLARED, 0)
    assert publish(host, "p", 1)
    size = host.disk.files[host.disk.names()[0]].size()
    assert publish(host, "p", 2)
    host.disk.files[host.disk.names()[0]].truncate(size)
    again = restarted(host.disk, DECLARED)
    assert not publish(again, "p", 1)
    assert publish(again, "p", 2)


def test_a_torn_note_of_publishers_is_made_up_for_from_the_log() -> None:
    host = Host()
    host.vhost.apply(SMALL, 0)
    for sequence in range(20):
        assert publish(host, "p", sequence)
    notes = [name for name in host.disk.names() if name.endswith(".pub")]
    host.disk.files[notes[-1]].truncate(3)
    again = restarted(host.disk, SMALL)
    assert not publish(again, "p", 19)


def test_history_that_is_read_back_does_not_touch_the_files() -> None:
    host = Host()
    host.vhost.apply(DECLARED, 0)
    put(host, b"old")
    host.vhost.apply(DeleteQueue("s"), 0)
    host.vhost.apply(DECLARED, 0)
    put(host, b"new")
    again = restarted(host.disk, DECLARED, DeleteQueue("s"), DECLARED)
    assert [entry.message.body for entry in again.stream().browse(9)] == [b"new"]


def test_files_of_a_stream_that_is_gone_are_removed() -> None:
    host = Host()
    host.vhost.apply(DECLARED, 0)
    put(host, b"old")
    host.disk.open("journal/1.log").append(b"not ours")
    again = restarted(host.disk, DECLARED, DeleteQueue("s"))
    assert again.disk.names() == ["journal/1.log"]


def test_damage_stops_the_opening() -> None:
    host = Host()
    host.vhost.apply(SMALL, 0)
    for _ in range(20):
        put(host, b"x" * 50)
    name = next(name for name in host.disk.names() if name.endswith(".log"))
    host.disk.files[name].truncate(200)
    with pytest.raises(Damaged, match=r"00\.log is damaged at offset 200"):
        restarted(host.disk, SMALL)


def test_partitions_are_not_made_twice() -> None:
    exchange = DeclareExchange(
        "e", "x-partitioned-stream", durable=True, arguments={"x-partitions": 2}
    )
    host = Host()
    host.vhost.apply(exchange, 0)
    put(host, b"kept", name="e-1")
    declared = [
        DeclareQueue(name, durable=True, arguments={"x-queue-type": "stream"})
        for name in ("e-0", "e-1")
    ]
    again = restarted(host.disk, exchange, *declared)
    assert again.stream("e-1").message_count == 1


def test_a_long_name_has_a_folder_of_its_own() -> None:
    host = Host()
    for name in ("q" * 255, "q" * 254):
        host.declare(name)
        put(host, name[:1].encode(), name=name)
    assert max(len(part) for path in host.disk.names() for part in path.split("/")) < 255
    assert len({path.rpartition("/")[0] for path in host.disk.names()}) == 2
