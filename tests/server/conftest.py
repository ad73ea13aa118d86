"""Ends what a test started and opened, so that a forgotten socket does not fail the next one."""

from collections.abc import Iterator

import pytest

from tests.server import opened
from tests.support.served import Served, served_processes


@pytest.fixture(autouse=True)
def everything_is_closed() -> Iterator[None]:
    yield
    opened.close_all()


@pytest.fixture
def served() -> Iterator[Served]:
    with served_processes() as started:
        yield started
