"""Ends what a test started and opened, so that a forgotten socket does not fail the next one."""

from collections.abc import Iterator

import pytest

from tests.server import opened
from tests.support.identities import Identities, make_identities
from tests.support.served import Served, served_processes


@pytest.fixture(autouse=True)
def everything_is_closed() -> Iterator[None]:
    yield
    opened.close_all()


@pytest.fixture
def served() -> Iterator[Served]:
    with served_processes() as started:
        yield started


@pytest.fixture(scope="session")
def identities(tmp_path_factory: pytest.TempPathFactory) -> Identities:
    return make_identities(tmp_path_factory.mktemp("identities"))
