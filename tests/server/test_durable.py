"""`penstock serve --data DIR` from outside: what is back after a restart, and every way in which a
directory can be wrong.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pika.exceptions
import pytest

from penstock.server.server import STOP_SECONDS
from tests.server.durable_broker import (
    PERSISTENT,
    TEN,
    DurableBroker,
    drain,
    drain_flagged,
    durable_broker,
    filled,
    publish,
)
from tests.server.raw_client import wait_for

REFUSED = 3
STORAGE_FAILED = 4
# What takes a moment, on a machine that has many other things to do.
PATIENCE_SECONDS = 60


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[DurableBroker]:
    with durable_broker(tmp_path / "data") as broker:
        yield broker


# What is back, and what is not.


@pytest.mark.parametrize(
    "ends", [DurableBroker.kill, DurableBroker.stop], ids=["killed", "stopped"]
)
def test_durable_things_are_back_and_others_are_not(
    broker: DurableBroker, ends: Callable[[DurableBroker], object]
) -> None:
    filled(broker)
    channel = broker.channel()
    channel.exchange_declare("e", "topic", durable=True)
    channel.exchange_declare("t", "topic")
    channel.queue_declare("transient")
    channel.queue_declare("deleted", durable=True)
    channel.queue_declare("limited", durable=True, arguments={"x-max-length": 2})
    channel.queue_bind("q", "e", "a.*")
    channel.queue_bind("limited", "e", "#")
    channel.queue_bind("deleted", "e", "#")
    channel.queue_unbind("limited", "e", "#")
    channel.basic_publish("", "q", b"transient", pika.BasicProperties(delivery_mode=1))
    publish(broker, "deleted", b"gone")
    channel.queue_delete("deleted")
    method, _, _ = channel.basic_get("q")
    channel.basic_ack(method.delivery_tag)
    channel.basic_get("q")  # never acknowledged
    ends(broker)
    broker.start()
    channel = broker.channel()
    channel.exchange_declare("e", "topic", durable=True)
    channel.queue_declare("limited", durable=True, arguments={"x-max-length": 2})
    assert drain_flagged(channel, "q") == [(body, True) for body in TEN[1:]]
    channel.confirm_delivery()
    channel.basic_publish("e", "a.b", b"routed", PERSISTENT, mandatory=True)
    assert drain(channel, "q") == [b"routed"]
    assert drain(channel, "limited") == []
    for name in "transient", "deleted":
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="404"):
            broker.channel().queue_declare(name, passive=True)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="404"):
        broker.channel().exchange_declare("t", passive=True)


def test_what_definitions_brought_is_back_without_the_file(
    broker: DurableBroker, tmp_path: Path
) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(
        """{"vhosts": [{"name": "v"}],
        "users": [{"name": "u", "password": "secret", "tags": ""}],
        "permissions": [{"user": "u", "vhost": "v", "configure": ".*", "write": ".*", "read": ".*"}],
        "policies": [{"vhost": "v", "name": "short", "pattern": "^s", "apply-to": "queues",
                      "definition": {"max-length": 2}}],
        "queues": [{"name": "s", "vhost": "v", "durable": true, "auto_delete": false,
                    "arguments": {}}],
        "exchanges": [], "bindings": []}"""
    )
    broker.start("--definitions", str(file))
    # The server says that it is ready before the disk has everything.
    broker.channel().queue_declare("flushed", durable=True)
    broker.restart()
    credentials = pika.PlainCredentials("u", "secret")
    connection = pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", broker.port, "v", credentials)
    )
    channel = connection.channel()
    channel.confirm_delivery()
    for body in b"1", b"2", b"3":
        channel.basic_publish("", "s", body, PERSISTENT)
    assert drain(channel, "s") == [b"2", b"3"]
    connection.close()


def test_a_transaction_that_was_committed_is_there_as_a_whole(broker: DurableBroker) -> None:
    filled(broker)
    channel = broker.channel()
    channel.tx_select()
    for body in b"a", b"b":
        channel.basic_publish("", "q", body, PERSISTENT)
    method, _, _ = channel.basic_get("q")
    channel.basic_ack(method.delivery_tag)
    channel.tx_commit()
    channel.basic_publish("", "q", b"never committed", PERSISTENT)
    broker.restart()
    assert drain(broker.channel(), "q") == [*TEN[1:], b"a", b"b"]


def test_a_stop_after_a_start_takes_no_time(broker: DurableBroker) -> None:
    filled(broker)
    broker.restart()
    broker.stop()
    # One that waits for a flush that nobody asked for is slow every time, a loaded machine is not.
    wait_for(lambda: seconds_to_stop(broker.start()) < STOP_SECONDS, PATIENCE_SECONDS)


def seconds_to_stop(broker: DurableBroker) -> float:
    begun = time.monotonic()
    assert broker.stop() == 0
    return time.monotonic() - begun


# Torn tails and damage.


@pytest.mark.parametrize(
    "garbage", [b"\0" * 5000, b"\xf5pNb" + b"garbage" * 9], ids=["zeros", "text"]
)
def test_garbage_behind_the_last_batch_is_cut_off_and_said(
    broker: DurableBroker, garbage: bytes
) -> None:
    filled(broker).kill()
    (segment,) = broker.segments()
    whole = segment.stat().st_size
    with segment.open("ab") as file:
        file.write(garbage)
    broker.start()
    assert "torn tail" in broker.errors()
    assert f"offset={whole}" in broker.errors()
    assert drain(broker.channel(), "q") == TEN
    publish(broker, "q", b"more")
    broker.restart()
    assert "torn tail" not in broker.errors()
    assert drain(broker.channel(), "q") == [b"more"]


def test_a_batch_that_was_never_safe_may_be_cut_short(broker: DurableBroker) -> None:
    """Written in a tick whose flush was never answered, by hand: the last octets are missing."""
    filled(broker)
    before = broker.contents()
    publish(broker, "q", b"x" * 1000)
    broker.kill()
    (segment,) = broker.segments()
    size = len(before["journal/" + segment.name])
    with segment.open("r+b") as file:
        file.truncate(size + 500)
    broker.start()
    assert "torn tail" in broker.errors()
    assert drain(broker.channel(), "q") == TEN


def test_a_flipped_octet_before_the_end_stops_the_start_with_file_and_offset(
    broker: DurableBroker,
) -> None:
    filled(broker).stop()
    (segment,) = broker.segments()
    with segment.open("r+b") as file:
        file.seek(300)
        octet = file.read(1)[0]
        file.seek(300)
        file.write(bytes([octet ^ 0x40]))
    before = broker.contents()
    code, errors = broker.refused()
    assert code == REFUSED
    assert f"journal/{segment.name}" in errors
    assert "offset" in errors
    assert "store" in errors, "it says what can be done"
    assert "Traceback" not in errors
    assert broker.contents() == before, "nothing is overwritten"


def test_a_missing_segment_is_damage(broker: DurableBroker) -> None:
    filled(broker).stop()
    (segment,) = broker.segments()
    segment.rename(segment.with_name("000000000002.log"))
    code, errors = broker.refused()
    assert code == REFUSED
    assert "000000000002.log" in errors


def half(broker: DurableBroker, name: str) -> None:
    path = broker.data / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def test_a_journal_cut_in_half_after_a_clean_stop_is_damage(broker: DurableBroker) -> None:
    filled(broker).stop()
    (segment,) = broker.segments()
    half(broker, f"journal/{segment.name}")
    before = broker.contents()
    code, errors = broker.refused()
    assert code == REFUSED
    assert f"journal/{segment.name} is damaged at offset " in errors
    assert "durable" in errors
    assert "`penstock store salvage`" in errors
    assert broker.contents() == before, "nothing is overwritten"


@pytest.mark.parametrize(
    "ends", [DurableBroker.kill, DurableBroker.stop], ids=["killed", "stopped"]
)
def test_a_journal_without_its_only_segment_is_damage(
    broker: DurableBroker, ends: Callable[[DurableBroker], object]
) -> None:
    filled(broker)
    # The note that there is a journal may come a moment after the first confirm.
    wait_for(lambda: list(broker.data.glob("safe-*")))
    ends(broker)
    (segment,) = broker.segments()
    segment.unlink()
    code, errors = broker.refused()
    assert code == REFUSED
    assert f"journal/{segment.name} is damaged at offset 0: the segment is missing" in errors


@pytest.mark.parametrize("suffix", ["log", "idx"])
def test_a_stream_cut_in_half_after_a_clean_stop_is_damage(
    broker: DurableBroker, suffix: str
) -> None:
    broker.start()
    broker.channel().queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    publish(broker, "s", *TEN)
    broker.stop()
    (file,) = broker.data.glob(f"streams/*/*/*.{suffix}")
    half(broker, str(file.relative_to(broker.data)))
    before = broker.contents()
    code, errors = broker.refused()
    assert code == REFUSED
    assert str(file.with_suffix(".log").relative_to(broker.data)) in errors
    assert broker.contents() == before, "nothing is overwritten"


def test_a_stream_that_was_deleted_after_a_clean_stop_is_not_missed(broker: DurableBroker) -> None:
    broker.start()
    arguments = {"x-queue-type": "stream"}
    broker.channel().queue_declare("s", durable=True, arguments=arguments)
    publish(broker, "s", *TEN)
    broker.stop()
    broker.start()
    broker.channel().queue_delete("s")
    broker.channel().queue_declare("s", durable=True, arguments=arguments)
    broker.restart()
    publish(broker, "s", b"again")
    assert broker.stop() == 0


# Directories that are somebody else's, in use, or cannot be written.


def test_a_second_server_is_told_who_has_the_directory(broker: DurableBroker) -> None:
    filled(broker)
    with durable_broker(broker.data) as second:
        code, errors = second.refused()
    assert code == REFUSED
    assert str(broker.process.pid) in errors
    assert drain(broker.channel(), "q") == TEN


def test_a_directory_of_another_version_is_left_alone(broker: DurableBroker) -> None:
    filled(broker).stop()
    meta = broker.data / "meta"
    meta.write_text(meta.read_text().replace('"version": 1', '"version": 99'))
    before = broker.contents()
    code, errors = broker.refused()
    assert code == REFUSED
    assert "99" in errors
    assert broker.contents() == before


def test_a_segment_of_another_store_is_refused(broker: DurableBroker, tmp_path: Path) -> None:
    filled(broker).stop()
    with durable_broker(tmp_path / "other") as other:
        other.start()
        publish(other, "amq.none")
        other.stop()
        (foreign,) = other.segments()
        foreign.rename(broker.data / "journal" / "000000000002.log")
    before = broker.contents()
    code, errors = broker.refused()
    assert code == REFUSED
    assert "000000000002.log" in errors
    assert broker.contents() == before


def test_a_file_in_its_place_is_refused(broker: DurableBroker) -> None:
    broker.data.write_text("mine")
    code, errors = broker.refused()
    assert code == REFUSED
    assert "not a directory" in errors
    assert broker.data.read_text() == "mine"


def test_a_directory_with_other_files_is_refused(broker: DurableBroker) -> None:
    broker.data.mkdir()
    (broker.data / "thesis.txt").write_text("mine")
    code, errors = broker.refused()
    assert code == REFUSED
    assert "not a Penstock data directory" in errors
    assert [file.name for file in broker.data.iterdir()] == ["thesis.txt"]
