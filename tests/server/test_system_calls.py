"""Safe means that the kernel was asked: the real calls of a real server, in their order."""

from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika import spec
from pika.adapters.blocking_connection import BlockingChannel

from tests.behaviour.raw import BrokerSilentError, RawConnection
from tests.server.durable_broker import PERSISTENT, DurableBroker, durable_broker
from tests.server.watched_calls import WatchedCalls

# A server that does not wait for the disk answers much sooner; one that does has all the time.
QUIET_SECONDS = 1.0
PATIENCE_SECONDS = 60.0


@pytest.fixture
def calls(tmp_path: Path) -> WatchedCalls:
    return WatchedCalls(tmp_path)


@pytest.fixture
def broker(tmp_path: Path, calls: WatchedCalls) -> Iterator[DurableBroker]:
    with durable_broker(tmp_path / "new" / "deeper" / "data", calls.environment) as broker:
        yield broker


def confirming(broker: DurableBroker) -> BlockingChannel:
    channel = broker.channel()
    channel.confirm_delivery()
    return channel


def test_a_new_data_directory_is_safe_with_all_its_new_parents_before_its_meta_is_there(
    broker: DurableBroker, calls: WatchedCalls
) -> None:
    broker.start()
    found = [(call.name, call.path) for call in calls.calls()]
    renamed = found.index(("rename", broker.data / "meta"))
    before, after = found[:renamed], found[renamed:]
    assert ("fsync", broker.data / "meta.new") in before, "its content"
    for parent in (broker.data.parent, broker.data.parent.parent, broker.data.parent.parent.parent):
        assert ("fsync", parent) in before, parent
    assert after[1] == ("fsync", broker.data), "its name, before anything else is done"


def test_a_confirm_comes_when_the_journal_and_the_names_of_its_files_are_safe(
    broker: DurableBroker, calls: WatchedCalls
) -> None:
    broker.start()
    channel = confirming(broker)
    channel.queue_declare("q", durable=True)
    channel.basic_publish("", "q", b"x" * 1000, PERSISTENT)
    (segment,) = broker.segments()
    content = segment.read_bytes()
    assert calls.flushed_size(segment) >= content.index(b"x" * 1000) + 1000
    flushed = calls.flushed("fsync")
    assert segment.parent in flushed, "the segment's name"
    # Once for `meta` and once more for the folder of the journal.
    assert flushed.count(broker.data) >= 2


def test_a_stream_confirms_when_its_files_and_their_names_are_safe(
    broker: DurableBroker, calls: WatchedCalls
) -> None:
    broker.start()
    channel = confirming(broker)
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    channel.basic_publish("", "s", b"x" * 1000, PERSISTENT)
    (log,) = broker.data.glob("streams/*/*/*.log")
    assert calls.flushed_size(log) >= log.read_bytes().index(b"x" * 1000) + 1000
    index = log.with_suffix(".idx")
    assert calls.flushed_size(index) == index.stat().st_size
    flushed = calls.flushed("fsync")
    for folder in (log.parent, log.parent.parent, log.parent.parent.parent):
        assert folder in flushed, folder


def open_raw(broker: DurableBroker) -> RawConnection:
    connection = RawConnection("127.0.0.1", broker.port)
    connection.open("guest", "guest", "/")
    connection.open_channel()
    return connection


@pytest.mark.parametrize("queue_type", ["classic", "stream"])
def test_nothing_is_confirmed_while_a_flush_has_not_returned(
    broker: DurableBroker, calls: WatchedCalls, queue_type: str
) -> None:
    broker.start()
    arguments = {"x-queue-type": queue_type}
    broker.channel().queue_declare("q", durable=True, arguments=arguments)
    with open_raw(broker) as connection:
        connection.call(1, spec.Confirm.Select(), spec.Confirm.SelectOk)
        calls.hold_flushes()
        connection.publish(1, "", "q", b"x", pika.BasicProperties(delivery_mode=2))
        expect_silence(connection)
        calls.let_go()
        assert isinstance(connection.read_frame(PATIENCE_SECONDS).method, spec.Basic.Ack)


@pytest.mark.parametrize("is_staged", [False, True], ids=["declared", "committed"])
def test_nothing_is_declared_or_committed_while_a_flush_has_not_returned(
    broker: DurableBroker, calls: WatchedCalls, is_staged: bool
) -> None:
    broker.start()
    broker.channel().queue_declare("q", durable=True)
    with open_raw(broker) as connection:
        answer: type = spec.Queue.DeclareOk
        if is_staged:
            answer = spec.Tx.CommitOk
            connection.call(1, spec.Tx.Select(), spec.Tx.SelectOk)
            connection.publish(1, "", "q", b"x", pika.BasicProperties(delivery_mode=2))
        calls.hold_flushes()
        asked = spec.Tx.Commit() if is_staged else spec.Queue.Declare(queue="new", durable=True)
        connection.send_method(1, asked)
        expect_silence(connection)
        calls.let_go()
        assert isinstance(connection.read_frame(PATIENCE_SECONDS).method, answer)


def expect_silence(connection: RawConnection) -> None:
    with pytest.raises(BrokerSilentError, match="nothing came"):
        connection.read_frame(QUIET_SECONDS)


def test_a_clean_stop_is_noted_safely(broker: DurableBroker, calls: WatchedCalls) -> None:
    broker.start()
    confirming(broker).queue_declare("q", durable=True)
    assert broker.stop() == 0
    (note,) = broker.data.glob("safe-*.tab")
    assert calls.flushed_size(note) == note.stat().st_size
    names = [(call.name, call.path) for call in calls.calls()]
    written = names.index(("fdatasync", note))
    assert ("fsync", broker.data) in names[written:], "its name"
