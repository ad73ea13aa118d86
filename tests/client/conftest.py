"""The broker the skins are tested against: the real one, inside this process."""

import socket
from collections.abc import Iterator

import pytest

from penstock import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    """One for each test: several of them drop connections or change what the broker does."""
    with Broker() as running:
        yield running


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
