"""The broker the skins are tested against: the real one, inside this process."""

from collections.abc import Iterator

import pytest

from penstock import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    """One for each test: several of them drop connections or change what the broker does."""
    with Broker() as running:
        yield running
