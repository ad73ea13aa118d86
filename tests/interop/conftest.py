"""The broker under test, and the clients that are not Python packages.

Invariants
- With `PENSTOCK_BEHAVIOUR_URL` set, the same tests run against any AMQP 0-9-1 broker that is already
  up, which is how they were proved right against RabbitMQ before they judged Penstock.
- Every queue and exchange has a fresh name, so that workers can share one broker.
"""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock import Broker
from tests.interop import foreign_clients
from tests.support.identities import Identities, make_identities


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker | None]:
    """The in-process broker, or None when an outside one was named."""
    if os.environ.get("PENSTOCK_BEHAVIOUR_URL"):
        yield None
        return
    with Broker() as running:
        yield running


@pytest.fixture(scope="session")
def broker_url(broker: Broker | None) -> str:
    """An AMQP URL without a path: clients disagree on what an empty path means."""
    url = os.environ["PENSTOCK_BEHAVIOUR_URL"] if broker is None else broker.url
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


@pytest.fixture
def drop_connections(broker: Broker | None) -> Callable[[], object]:
    """Makes the broker cut every connection, as a crash or a failing network would."""
    if broker is not None:
        return broker.drop_connections
    if os.environ.get("PYTEST_XDIST_WORKER"):
        pytest.skip("an outside broker is shared: dropping would hit the other workers' tests")
    command = os.environ.get("PENSTOCK_BEHAVIOUR_DROP_COMMAND")
    if not command:
        pytest.skip("PENSTOCK_BEHAVIOUR_DROP_COMMAND='rabbitmqctl close_all_connections test'")
    return lambda: subprocess.run(command, shell=True, check=True, timeout=20, capture_output=True)


@pytest.fixture
def unique() -> Callable[[str], str]:
    return lambda name: f"interop.{name}.{uuid.uuid4().hex[:10]}"


@pytest.fixture(scope="session")
def amqp_tools() -> Path:
    return foreign_clients.amqp_tools()


@pytest.fixture(scope="session")
def go_client() -> Path:
    return foreign_clients.go_client()


@pytest.fixture(scope="session")
def amqplib() -> Path:
    return foreign_clients.node_packages("amqplib")


@pytest.fixture(scope="session")
def proton_examples() -> Path:
    return foreign_clients.proton_examples("send", "receive", "send-abort")


@pytest.fixture(scope="session")
def proton_python_examples() -> Path:
    return foreign_clients.proton_python_examples()


@pytest.fixture(scope="session")
def rabbitmq_amqp_client() -> Path:
    return foreign_clients.rabbitmq_amqp_client()


@pytest.fixture(scope="session")
def rhea() -> Path:
    return foreign_clients.node_packages("rhea")


@pytest.fixture(scope="session")
def identities(tmp_path_factory: pytest.TempPathFactory) -> Identities:
    return make_identities(tmp_path_factory.mktemp("identities"))
