"""`penstock serve --data DIR` on a file system that is full, low on room, or cannot be written."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pika
import pika.exceptions
import pytest

from tests.server.durable_broker import (
    PERSISTENT,
    TEN,
    DurableBroker,
    drain,
    durable_broker,
    filled,
    publish,
)
from tests.server.raw_client import wait_for

REFUSED = 3
STORAGE_FAILED = 4
# What takes a moment, on a machine that has many other things to do.
PATIENCE_SECONDS = 60


class SmallDisk:
    """A file system in memory. Only root may make one."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def mount(self, options: str) -> None:
        command = ["mount", "-t", "tmpfs", "-o", options, "penstock-test", str(self.path)]
        if subprocess.run(command, check=False, capture_output=True).returncode:
            pytest.skip("a file system cannot be mounted here")

    def change(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", str(self.path)], check=True)

    def fill(self) -> None:
        """To the last block."""
        with (self.path / "ballast").open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))

    def without_alarm(self) -> str:
        """The option of a server that fills it to the last octet."""
        file = self.path.parent / "penstock.toml"
        file.write_text("[data]\npublishers_wait_below_bytes = 0\n")
        return f"--config={file}"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    path = tmp_path / "mounted"
    path.mkdir()
    disk = SmallDisk(path)
    yield disk
    if os.path.ismount(path):
        subprocess.run(["umount", "-l", str(path)], check=True)


def test_a_directory_that_cannot_be_written_is_refused(small_disk: SmallDisk) -> None:
    small_disk.mount("size=4m")
    with durable_broker(small_disk.path / "data") as broker:
        filled(broker, small_disk.without_alarm()).stop()
        small_disk.change("ro")
        code, errors = broker.refused()
        assert code == REFUSED
        assert "is not writable" in errors
        assert "Traceback" not in errors
        small_disk.change("rw")
        broker.start()
        assert drain(broker.channel(), "q") == TEN


def fill_until_it_stops(broker: DurableBroker) -> list[bytes]:
    """Publish until nothing is confirmed any more; what was."""
    confirmed: list[bytes] = []
    parameters = pika.ConnectionParameters(
        "127.0.0.1", broker.port, socket_timeout=PATIENCE_SECONDS
    )
    try:
        channel = pika.BlockingConnection(parameters).channel()
        channel.confirm_delivery()
        for number in range(2000):
            body = b"%04d" % number + b"x" * 50_000
            channel.basic_publish("", "q", body, PERSISTENT)
            confirmed.append(body[:4])
    except (pika.exceptions.AMQPError, OSError):
        return confirmed
    raise AssertionError("a hundred megabytes do not fit eight")


def test_a_full_disk_loses_nothing_that_was_confirmed(small_disk: SmallDisk) -> None:
    small_disk.mount("size=8m")
    with durable_broker(small_disk.path / "data") as broker:
        filled(broker, small_disk.without_alarm())
        confirmed = fill_until_it_stops(broker)
        assert broker.process.wait(PATIENCE_SECONDS) == STORAGE_FAILED
        assert "No space left" in broker.errors()
        assert "Traceback" not in broker.errors()
        small_disk.change("size=600m")
        broker.start()
        found = drain(broker.channel(), "q")
        assert found[:10] == TEN
        numbers = [body[:4] for body in found[10:]]
        assert numbers[: len(confirmed)] == confirmed
        assert len(numbers) <= len(confirmed) + 1, "one was on its way"
        publish(broker, "q", b"goes on")
        assert broker.stop() == 0


@pytest.mark.parametrize(
    "ends", [DurableBroker.kill, DurableBroker.stop], ids=["killed", "stopped"]
)
def test_a_server_starts_on_a_full_disk_and_shows_what_it_has(
    small_disk: SmallDisk, ends: Callable[[DurableBroker], object]
) -> None:
    small_disk.mount("size=8m")
    with durable_broker(small_disk.path / "data") as broker:
        filled(broker, small_disk.without_alarm())
        broker.channel().queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
        publish(broker, "s", b"in the stream")
        ends(broker)
        small_disk.fill()
        broker.start()
        channel = broker.channel()
        assert channel.queue_declare("q", passive=True).method.message_count == 10
        assert channel.basic_get("q")[2] == TEN[0]
        channel.basic_qos(prefetch_count=1)
        arguments = {"x-stream-offset": "first"}
        _, _, body = next(channel.consume("s", arguments=arguments, inactivity_timeout=60))
        assert body == b"in the stream"
        assert broker.process.poll() is None
        broker.kill()
        (small_disk.path / "ballast").unlink()
        broker.start(small_disk.without_alarm())
        publish(broker, "q", b"goes on")
        assert drain(broker.channel(), "q") == [*TEN, b"goes on"]


def test_a_server_that_cannot_start_on_a_full_disk_says_why(small_disk: SmallDisk) -> None:
    small_disk.mount("size=8m")
    with durable_broker(small_disk.path / "data") as broker:
        filled(broker, small_disk.without_alarm())
        broker.channel().queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
        broker.kill()
        # The stream has to be begun anew.
        shutil.rmtree(broker.data / "streams")
        small_disk.fill()
        code, errors = broker.refused()
        assert code == REFUSED
        assert "no space left for the data directory" in errors
        assert "Traceback" not in errors
        (small_disk.path / "ballast").unlink()
        broker.start(small_disk.without_alarm())
        assert drain(broker.channel(), "q") == TEN


def test_the_disk_alarm_blocks_publishers_and_consumers_go_on(small_disk: SmallDisk) -> None:
    small_disk.mount("size=600m")
    with durable_broker(small_disk.path / "data") as broker:
        filled(broker)
        blocked: list[str] = []
        publisher = broker.connection()
        publisher.add_on_connection_blocked_callback(
            lambda _, frame: blocked.append(frame.method.reason)
        )
        publisher.add_on_connection_unblocked_callback(lambda *_: blocked.append("over"))
        channel = publisher.channel()
        channel.basic_publish("", "q", b"before", PERSISTENT)
        ballast = small_disk.path / "ballast"
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 450 << 20)
        wait_for(lambda: publisher.process_data_events(0.05) or blocked)
        assert "disk" in blocked[0]
        channel.basic_publish("", "q", b"waits", PERSISTENT)
        assert drain(broker.channel(), "q") == [*TEN, b"before"]
        ballast.unlink()
        wait_for(lambda: publisher.process_data_events(0.05) or blocked[-1] == "over")
        wait_for(lambda: drain(broker.channel(), "q") == [b"waits"])
