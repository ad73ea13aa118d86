"""Closes what a test opened, so that a forgotten socket does not fail the next one."""

from collections.abc import Iterator

import pytest

from tests.server import opened


@pytest.fixture(autouse=True)
def everything_is_closed() -> Iterator[None]:
    yield
    opened.close_all()
