"""The examples of Qpid Proton's Python binding as Debian ships them, on a server that nobody has told
anything: no login, no SASL layer or ANONYMOUS, no queue declared.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock import Broker

pytest.importorskip("proton", reason="python-qpid-proton is not installed")

from proton import Event, Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

PATIENCE_SECONDS = 60.0

pytestmark = [
    # Without the time a fixture may take to install.
    pytest.mark.timeout(200, func_only=True),
    # Proton's Python binding leaves its own sockets to the collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

REQUESTS = [
    "Twas brillig, and the slithy toves",
    "Did gire and gymble in the wabe.",
    "All mimsy were the borogroves,",
    "And the mome raths outgrabe.",
]
ANSWERS = [f"{request} => {request.upper()}" for request in REQUESTS]
SEQUENCE = [f"{{'sequence': {number}}}" for number in range(1, 101)]


class Examples:
    """Runs them against one broker, with an address of their own."""

    def __init__(self, folder: Path, broker: Broker, name: str) -> None:
        self._folder = folder
        self.address = f"{broker.host}:{broker.port}/{name}"

    def start(self, name: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(self._folder / name), "-a", self.address, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, name: str, *arguments: str) -> list[str]:
        return lines_of(self.start(name, *arguments))


def lines_of(process: subprocess.Popen[str]) -> list[str]:
    """What it said until it ended by itself."""
    try:
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        pytest.fail(f"{process.args!r} did not end\n{output}")
    assert process.returncode == 0, output
    return output.splitlines()


@pytest.fixture
def examples(
    broker: Broker | None, proton_python_examples: Path, unique: Callable[[str], str]
) -> Examples:
    if broker is None:
        pytest.skip("an outside broker was named, and it may not speak AMQP 1.0")
    return Examples(proton_python_examples, broker, unique("examples"))


class HelloWorld(MessagingHandler):
    """As the example of that name, which does not take a port."""

    def __init__(self, server: str, address: str) -> None:
        super().__init__()
        self.server = server
        self.address = address
        self.heard: list[object] = []

    def on_start(self, event: Event) -> None:
        connection = event.container.connect(self.server)
        event.container.create_receiver(connection, self.address)
        event.container.create_sender(connection, self.address)

    def on_sendable(self, event: Event) -> None:
        assert event.sender is not None
        event.sender.send(Message(body="Hello World!"))
        event.sender.close()

    def on_message(self, event: Event) -> None:
        self.heard.append(event.message.body)
        assert event.connection is not None
        event.connection.close()


def test_hello_world(broker: Broker, unique: Callable[[str], str]) -> None:
    hello = HelloWorld(f"{broker.host}:{broker.port}", unique("examples"))
    Container(hello).run()
    assert hello.heard == ["Hello World!"]


@pytest.mark.parametrize(
    ("send", "receive"), [("simple_send.py", "simple_recv.py"), ("tx_send.py", "tx_recv.py")]
)
def test_a_sender_and_a_receiver(examples: Examples, send: str, receive: str) -> None:
    receiver = examples.start(receive)
    examples.run(send)
    assert lines_of(receiver) == SEQUENCE


@pytest.mark.parametrize("client", ["client.py", "sync_client.py"])
def test_a_client_and_a_server(examples: Examples, client: str) -> None:
    # Requests wait for it, however long it takes to start.
    serving = examples.start("server.py")
    try:
        assert examples.run(client) == ANSWERS
    finally:
        serving.kill()
        serving.communicate()


def test_a_selector_and_a_browser(examples: Examples) -> None:
    examples.run("colour_send.py")
    green = [f"green {number}" for number in range(1, 101, 2)]
    red = [f"red {number}" for number in range(2, 101, 2)]
    assert examples.run("selected_recv.py", "-m", "50") == green
    assert examples.run("simple_recv.py", "-m", "50") == red
