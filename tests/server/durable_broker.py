"""`penstock serve --data DIR` as a process that can be killed and started again."""

import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika

from tests.server.opened import close_all, pika_connection
from tests.support.served import END_SECONDS, amqp_port, launch, ready_facts

# Unless told otherwise, messages here are meant to survive.
PERSISTENT = pika.BasicProperties(delivery_mode=2)


class DurableBroker:
    """Held by a test; `durable_broker` ends it."""

    def __init__(self, data: Path, environment: dict[str, str] | None = None) -> None:
        self.data = data
        self._environment = environment
        self.port = 0
        self._process: subprocess.Popen[str] | None = None
        # A file, because nobody reads while it runs. The process appends, wherever we are in it.
        self._errors = tempfile.NamedTemporaryFile("a")  # noqa: SIM115 - closed by `close`

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None
        return self._process

    def launch(self, *options: str) -> subprocess.Popen[str]:
        if self._process is not None:
            self._process.communicate(timeout=END_SECONDS)
        self._errors.truncate(0)
        self._process = launch(
            "--port=0",
            f"--data={self.data}",
            *options,
            errors=self._errors,
            environment=self._environment,
        )
        return self._process

    def start(self, *options: str) -> "DurableBroker":
        process = self.launch(*options)
        try:
            self.port = amqp_port(ready_facts(process))
        except AssertionError as error:
            error.add_note(self.errors())
            raise
        return self

    def refused(self) -> tuple[int, str]:
        """Start and expect that it does not; the exit code and what it said."""
        process = self.launch()
        output, _ = process.communicate(timeout=END_SECONDS)
        assert not output, output
        return process.returncode, self.errors()

    def errors(self) -> str:
        # Not by what the process writes to: both would move one and the same place in the file.
        return Path(self._errors.name).read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        # Clients that do not listen would have the server wait for their answer.
        close_all()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(END_SECONDS)
        return self.process.returncode

    def restart(self) -> None:
        self.kill()
        self.start()

    def connection(self) -> pika.BlockingConnection:
        return pika_connection(f"amqp://127.0.0.1:{self.port}")

    def channel(self) -> "pika.adapters.blocking_connection.BlockingChannel":
        return self.connection().channel()

    def memory_bytes(self) -> int:
        """Resident, of the running process."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    def disk_bytes(self) -> int:
        return sum(file.stat().st_size for file in self.data.rglob("*") if file.is_file())

    def segments(self) -> list[Path]:
        return sorted((self.data / "journal").iterdir())

    def contents(self) -> dict[str, bytes]:
        return {
            str(file.relative_to(self.data)): file.read_bytes()
            for file in self.data.rglob("*")
            if file.is_file() and file.name != "lock"
        }

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._errors.close()


@contextmanager
def durable_broker(
    data: Path, environment: dict[str, str] | None = None
) -> Iterator[DurableBroker]:
    broker = DurableBroker(data, environment)
    try:
        yield broker
    finally:
        broker.close()


def drain(channel: "pika.adapters.blocking_connection.BlockingChannel", queue: str) -> list[bytes]:
    """Everything that is ready, acknowledged."""
    return [body for body, _ in drain_flagged(channel, queue)]


def drain_flagged(
    channel: "pika.adapters.blocking_connection.BlockingChannel", queue: str
) -> list[tuple[bytes, bool]]:
    count = channel.queue_declare(queue, passive=True).method.message_count
    found: list[tuple[bytes, bool]] = []
    if count == 0:
        return found
    channel.basic_qos(prefetch_count=2000)
    for method, _, body in channel.consume(queue, inactivity_timeout=END_SECONDS):
        assert method is not None, f"{len(found)} of {count} came"
        found.append((body, method.redelivered))
        if len(found) % 500 == 0 or len(found) == count:
            channel.basic_ack(method.delivery_tag, multiple=True)
        if len(found) == count:
            break
    channel.cancel()
    return found


TEN = [b"%d" % number for number in range(10)]


def publish(broker: DurableBroker, queue: str, *bodies: bytes) -> None:
    """And wait until they are confirmed."""
    channel = broker.channel()
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", queue, body, PERSISTENT)


def filled(broker: DurableBroker, *options: str) -> DurableBroker:
    """Started, with a durable queue `q` of ten messages."""
    broker.start(*options)
    broker.channel().queue_declare("q", durable=True)
    publish(broker, "q", *TEN)
    return broker
