"""Brokers that serve HTTP."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import Broker
from tests.server.http.asking import Pages, serving


@pytest.fixture
def broker() -> Iterator[Broker]:
    with serving() as running:
        yield running


@pytest.fixture
def pages(broker: Broker) -> Pages:
    return Pages(broker)


@pytest.fixture(params=["memory", "disk"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pages]:
    """Once in memory, once in a data directory: their octets travel differently."""
    data = None if request.param == "memory" else tmp_path / "data"
    with serving(data) as running:
        yield Pages(running)
