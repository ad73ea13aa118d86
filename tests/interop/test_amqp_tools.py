"""librabbitmq through Debian's command-line tools: the C client that many others are built on."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PATIENCE_SECONDS = 15.0

# Without the time a fixture may take to install the tools.
pytestmark = pytest.mark.timeout(60, func_only=True)

Tool = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def tool(amqp_tools: Path, broker_url: str) -> Tool:
    def run(
        name: str, *arguments: str, url: str = f"{broker_url}/%2F", body: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [str(amqp_tools / name), f"--url={url}", *arguments],
            input=body,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    return run


@pytest.fixture
def queue(tool: Tool, unique: Callable[[str], str]) -> Iterator[str]:
    name = unique("tools")
    declared = tool("amqp-declare-queue", f"--queue={name}", "--durable")
    assert (declared.returncode, declared.stdout.decode().strip()) == (0, name), declared.stderr
    yield name
    tool("amqp-delete-queue", f"--queue={name}")


@pytest.fixture
def start_consumer(
    amqp_tools: Path, broker_url: str
) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts an amqp-consume that prints one message and ends."""
    running: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        program = [str(amqp_tools / "amqp-consume"), f"--url={broker_url}/%2F", "--count=1"]
        running.append(
            subprocess.Popen(
                [*program, *arguments, "cat"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        )
        return running[-1]

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_amqp_publish_and_amqp_get_pass_a_message(tool: Tool, queue: str) -> None:
    sent = tool(
        "amqp-publish",
        f"--routing-key={queue}",
        "--persistent",
        "--content-type=text/plain",
        "--header=colour: red",
        "--body=hello",
    )
    assert sent.returncode == 0, sent.stderr
    got = tool("amqp-get", f"--queue={queue}")
    assert (got.returncode, got.stdout) == (0, b"hello"), got.stderr
    empty = tool("amqp-get", f"--queue={queue}")
    assert (empty.returncode, empty.stdout) == (2, b""), empty.stderr


def test_a_large_message_crosses_librabbitmq_unharmed(tool: Tool, queue: str) -> None:
    body = bytes(range(256)) * 4099
    sent = tool("amqp-publish", f"--routing-key={queue}", body=body)
    assert sent.returncode == 0, sent.stderr
    assert tool("amqp-get", f"--queue={queue}").stdout == body


def test_amqp_consume_runs_a_program_for_each_line(tool: Tool, queue: str) -> None:
    sent = tool("amqp-publish", f"--routing-key={queue}", "--line-buffered", body=b"one\ntwo\n")
    assert sent.returncode == 0, sent.stderr
    eaten = tool("amqp-consume", f"--queue={queue}", "--count=2", "--prefetch-count=1", "cat")
    assert eaten.returncode == 0, eaten.stderr
    assert eaten.stdout.split() == [b"one", b"two"]
    assert tool("amqp-get", f"--queue={queue}").returncode == 2, "amqp-consume acknowledged them"


def test_amqp_consume_declares_and_binds_its_own_queue(
    tool: Tool, start_consumer: Callable[..., subprocess.Popen[bytes]]
) -> None:
    key = f"--routing-key=interop.tools.{os.getpid()}"
    consumer = start_consumer("--exchange=amq.topic", key)
    assert consumer.stderr is not None
    assert b"amq.gen-" in consumer.stderr.readline()
    # It says its queue's name before it binds it, so the first publish may come too early.
    while consumer.poll() is None:
        sent = tool("amqp-publish", "--exchange=amq.topic", key, "--body=routed")
        assert sent.returncode == 0, sent.stderr
    assert consumer.communicate(timeout=PATIENCE_SECONDS)[0] == b"routed"
    assert consumer.returncode == 0


def test_amqp_delete_queue_says_how_many_messages_went_with_it(tool: Tool, queue: str) -> None:
    tool("amqp-publish", f"--routing-key={queue}", "--body=lost")
    refused = tool("amqp-delete-queue", f"--queue={queue}", "--if-empty")
    assert refused.returncode != 0
    assert b"406" in refused.stderr
    deleted = tool("amqp-delete-queue", f"--queue={queue}")
    assert (deleted.returncode, deleted.stdout.strip()) == (0, b"1"), deleted.stderr
    assert b"404" in tool("amqp-get", f"--queue={queue}").stderr


def test_librabbitmq_says_why_it_was_refused(tool: Tool, broker_url: str) -> None:
    wrong = broker_url.replace("guest:guest", "guest:wrong")
    password = tool("amqp-get", "--queue=any", url=f"{wrong}/%2F")
    assert password.returncode != 0
    assert b"403" in password.stderr
    vhost = tool("amqp-get", "--queue=any", url=f"{broker_url}/no-such-vhost")
    assert vhost.returncode != 0
    assert b"530" in vhost.stderr


def test_librabbitmq_keeps_an_idle_connection_alive_by_heartbeats(
    tool: Tool, start_consumer: Callable[..., subprocess.Popen[bytes]], queue: str
) -> None:
    consumer = start_consumer(f"--queue={queue}", "--heartbeat=1")
    time.sleep(3.2)  # idle for over three intervals: the point of this test
    assert consumer.poll() is None
    tool("amqp-publish", f"--routing-key={queue}", "--body=late")
    assert consumer.communicate(timeout=PATIENCE_SECONDS)[0] == b"late"
    assert consumer.returncode == 0
