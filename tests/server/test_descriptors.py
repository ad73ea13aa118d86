"""A broker whose descriptors run out: it refuses new connections and goes on with everything else."""

import json
import resource
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from penstock.server.descriptors import (
    RESERVE_MIN,
    SpareDescriptor,
    files_below,
    files_max,
    http_below,
    limit,
    reserve,
    sockets_below,
)
from tests.server.durable_broker import PERSISTENT, drain, durable_broker
from tests.server.opened import pika_connection
from tests.server.raw_client import wait_for
from tests.support.served import amqp_port, ready_facts

# Of the broker's process, which has about 25 of its own.
LIMIT = 160
# More than it can take.
STRANGERS = 300
HANDSHAKE_SECONDS = 3
# For what a machine that has nothing else to do does in a moment, or after the handshake time.
PATIENCE = 40.0


class TightBroker:
    """A broker under a low limit of open files. Held by one test."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        config = folder / "penstock.toml"
        config.write_text(f"[limits]\nhandshake_seconds = {HANDSHAKE_SECONDS}\n")
        self._errors = tempfile.NamedTemporaryFile("a")  # noqa: SIM115 - closed by `close`
        options = ["--port=0", f"--data={self.data}", f"--config={config}"]
        command = shlex.join([sys.executable, "-m", "penstock", "serve", *options])
        self.process = subprocess.Popen(
            ["sh", "-c", f"ulimit -n {LIMIT} && exec {command}"],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self.facts = ready_facts(self.process)
        self.port = amqp_port(self.facts)

    def said(self) -> str:
        return Path(self._errors.name).read_text()

    def descriptor_count(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def live(self) -> int:
        return httpx.get(f"http://{self.facts['http']}/health/live", timeout=20).status_code

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        self._errors.close()


@contextmanager
def tight_broker(folder: Path) -> Iterator[TightBroker]:
    broker = TightBroker(folder)
    try:
        yield broker
    finally:
        broker.close()


def is_ended(raw: socket.socket) -> bool:
    """Whether the broker has closed it, without waiting."""
    raw.setblocking(False)
    try:
        return not raw.recv(1)
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


@contextmanager
def strangers(port: int) -> Iterator[list[socket.socket]]:
    """Sockets that say nothing."""
    opened: list[socket.socket] = []
    try:
        for _ in range(STRANGERS):
            opened.append(socket.create_connection(("127.0.0.1", port), timeout=20))
        yield opened
    finally:
        for raw in opened:
            raw.close()


def test_without_descriptors_strangers_are_refused_and_clients_are_served(tmp_path: Path) -> None:
    with tight_broker(tmp_path) as broker:
        channel = pika_connection(f"amqp://127.0.0.1:{broker.port}").channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        with strangers(broker.port) as opened:
            wait_for(lambda: sum(is_ended(raw) for raw in opened) >= STRANGERS - LIMIT, PATIENCE)
            assert broker.live() == 200
            # A durable stream needs new files, the journal flushes.
            channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
            for queue in ("q", "s"):
                channel.basic_publish("", queue, b"while there were none", PERSISTENT)
            # And those that were taken and say nothing are not kept for ever.
            wait_for(lambda: all(is_ended(raw) for raw in opened), PATIENCE)
        wait_for(lambda: broker.descriptor_count() < LIMIT // 2, PATIENCE)
        newcomer = pika_connection(f"amqp://127.0.0.1:{broker.port}").channel()
        assert drain(newcomer, "q") == [b"while there were none"]
        said = broker.said()
        # Once a minute, however many were refused.
        assert 1 <= said.count("refused connections") <= 2
        assert "LimitNOFILE" in said
        assert "Traceback" not in said


def test_more_connections_than_descriptors_are_not_promised(tmp_path: Path) -> None:
    with tight_broker(tmp_path) as broker:
        wait_for(lambda: "connection limit lowered" in broker.said())


def test_many_streams_do_not_need_a_descriptor_each(tmp_path: Path) -> None:
    count = LIMIT
    with tight_broker(tmp_path) as broker:
        channel = pika_connection(f"amqp://127.0.0.1:{broker.port}").channel()
        channel.confirm_delivery()
        for number in range(count):
            name = f"s{number}"
            channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
            channel.basic_publish("", name, b"%d" % number, PERSISTENT)
        # Again, in the order in which their files were put away.
        for number in range(count):
            channel.basic_publish("", f"s{number}", b"again %d" % number, PERSISTENT)
        assert broker.descriptor_count() < LIMIT
        assert broker.process.poll() is None
    with durable_broker(broker.data) as again:
        channel = again.start().channel()
        depths = [
            channel.queue_declare(f"s{number}", passive=True).method.message_count
            for number in range(count)
        ]
        assert depths == [2] * count


def test_the_marks_lie_in_their_order_whatever_the_limit() -> None:
    script = (
        "import json, resource, sys\n"
        "from penstock.server import descriptors as d\n"
        "for most in map(int, sys.argv[1:]):\n"
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))\n"
        "    marks = [d.sockets_below(), d.http_below(), d.files_below(), d.limit()]\n"
        "    print(json.dumps([*marks, d.files_max()]))\n"
    )
    limits = ["4096", "1024", "256", "100", "64"]
    said = subprocess.run(
        [sys.executable, "-c", script, *limits], capture_output=True, text=True, check=True
    ).stdout
    for line in said.splitlines():
        *marks, files = json.loads(line)
        assert marks == sorted(marks)
        assert 0 < files <= marks[-1] - marks[0]
    assert len(said.splitlines()) == len(limits)


@pytest.mark.parametrize(
    ("of", "kept"), [(10, RESERVE_MIN), (256, 64), (1024, 256), (4096, 1024), (1 << 20, 1024)]
)
def test_a_quarter_is_kept_within_bounds(of: int, kept: int) -> None:
    assert reserve(of) == kept


def test_the_marks_of_this_process_come_from_its_own_limit() -> None:
    assert limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert sockets_below() < http_below() < files_below() < limit()
    assert files_max() == reserve(limit()) // 2


def test_a_spare_descriptor_makes_room_once_and_is_taken_back() -> None:
    spare = SpareDescriptor()
    assert spare.release()
    assert not spare.release()
    spare.take_back()
    assert spare.release()
    spare.close()
