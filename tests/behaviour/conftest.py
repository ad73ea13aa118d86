"""Fixtures of the behaviour suite: which broker, and one view of it per test.

`PENSTOCK_BEHAVIOUR_URL` names a running broker, usually RabbitMQ, whose behaviour is the truth;
`PENSTOCK_BEHAVIOUR_MANAGEMENT_URL` its management interface. With
`PENSTOCK_BEHAVIOUR_BROKER=penstock` that broker is a Penstock, for example the root of a cluster.
Without them the suite drives a Penstock in this process.
"""

from __future__ import annotations

import os
import urllib.parse
import uuid
from collections.abc import Iterator

import pytest

from tests.behaviour.target import (
    BrokerUnderTest,
    InProcessAdministration,
    ManagementAdministration,
    Target,
)

URL = os.environ.get("PENSTOCK_BEHAVIOUR_URL", "")
MANAGEMENT_URL = os.environ.get("PENSTOCK_BEHAVIOUR_MANAGEMENT_URL", "")
IS_RABBITMQ = bool(URL) and os.environ.get("PENSTOCK_BEHAVIOUR_BROKER", "") != "penstock"

MARKERS = (
    "differs(reason, twin): RabbitMQ does this; Penstock on purpose what the penstock_only twin says",
    "penstock_only(reason): RabbitMQ lacks it or does otherwise; only Penstock is asked",
    "rabbitmq_310(reason): true of RabbitMQ 3.10 only; neither later ones nor Penstock are asked",
    "administered: needs users, vhosts or policies to be set",
)


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for name, skipped in (
            ("differs", not IS_RABBITMQ),
            ("rabbitmq_310", not IS_RABBITMQ),
            ("penstock_only", IS_RABBITMQ),
        ):
            marker = item.get_closest_marker(name)
            if marker is not None and name == "differs":
                check_twin(item, marker)
            if marker is not None and skipped:
                item.add_marker(pytest.mark.skip(reason=f"{name}: {marker.args[0]}"))
        if item.get_closest_marker("administered") and URL and not MANAGEMENT_URL:
            item.add_marker(pytest.mark.skip(reason="no PENSTOCK_BEHAVIOUR_MANAGEMENT_URL"))


def check_twin(item: pytest.Item, marker: pytest.Mark) -> None:
    assert isinstance(item, pytest.Function)
    twin = getattr(item.module, marker.kwargs.get("twin", ""), None)
    marks = {mark.name for mark in getattr(twin, "pytestmark", [])}
    if "penstock_only" not in marks:
        raise pytest.UsageError(f"{item.nodeid} differs, and nothing proves what Penstock does")


@pytest.fixture(scope="session")
def target() -> Iterator[Target]:
    if not URL:
        from penstock import Broker

        with Broker() as broker:
            yield Target(broker.host, broker.port, "/", InProcessAdministration(broker))
        return
    parts = urllib.parse.urlsplit(URL)
    user, password = parts.username or "guest", parts.password or "guest"
    host, port = parts.hostname or "127.0.0.1", parts.port or 5672
    vhost = urllib.parse.unquote(parts.path[1:]) or "/"
    if not MANAGEMENT_URL:
        yield Target(host, port, vhost, None, user=user, password=password, is_rabbitmq=IS_RABBITMQ)
        return
    # What tests leave behind goes with a vhost of this session's own.
    administration = ManagementAdministration(MANAGEMENT_URL, user, password)
    vhost = f"behaviour-{uuid.uuid4().hex[:8]}"
    administration.add_vhost(vhost)
    administration.set_permissions(user, vhost, ".*", ".*", ".*")
    yield Target(
        host, port, vhost, administration, user=user, password=password, is_rabbitmq=IS_RABBITMQ
    )
    administration.delete_vhost(vhost)


@pytest.fixture
def broker(target: Target) -> Iterator[BrokerUnderTest]:
    view = BrokerUnderTest(target, target.administration)
    yield view
    view.close()
