"""The definitions file of a server in a cluster."""

from __future__ import annotations

import pytest

from penstock.broker.access.users import DEFAULT_USER_HASH
from penstock.broker.state import BrokerState, put_defaults
from penstock.broker.topology import (
    AddVhost,
    DeclareExchange,
    DeclareQueue,
    PutUser,
    SetGlobalParameter,
    SetPolicy,
)
from penstock.server.first_definitions import has_only_defaults
from penstock.server.world.entropy import MachineEntropy


def defaults() -> BrokerState:
    state = BrokerState(MachineEntropy())
    put_defaults(state, 0)
    return state


def test_a_new_cluster_has_only_the_defaults() -> None:
    assert has_only_defaults(defaults())


@pytest.mark.parametrize(
    "command",
    [AddVhost("v"), PutUser("ann", DEFAULT_USER_HASH), SetGlobalParameter("x", 1)],
)
def test_what_an_operator_adds_counts(command: AddVhost | PutUser | SetGlobalParameter) -> None:
    state = defaults()
    state.apply(command, 0)
    assert not has_only_defaults(state)


@pytest.mark.parametrize(
    "command",
    [
        DeclareQueue("q", durable=True),
        DeclareExchange("e", "direct", durable=True),
        SetPolicy("p", ".*", {"max-length": 1}),
    ],
)
def test_what_is_in_the_virtual_host_counts(
    command: DeclareQueue | DeclareExchange | SetPolicy,
) -> None:
    state = defaults()
    state.vhost("/").apply(command, 0)
    assert not has_only_defaults(state)
