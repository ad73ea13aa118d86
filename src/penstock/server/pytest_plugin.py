"""A broker for tests: `def test_orders(penstock_broker): ... penstock_broker.url`.

Registered as a pytest plugin by the package, so installing Penstock is all it takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.server.in_process import Broker


@pytest.fixture
def penstock_broker() -> Iterator[Broker]:
    """A broker for this test alone: in memory, on a free port, stopped when the test ends."""
    # Imported late: a test run that does not use the fixture must not pay for a server.
    from penstock.server.in_process import Broker

    with Broker() as broker:
        yield broker
