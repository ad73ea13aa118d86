"""Administration as events: every command has one, and none has a secret."""

from typing import get_args

import pytest

from penstock.broker.command_events import event_of, vhost_event_of
from penstock.broker.events import EventKind
from penstock.broker.topology import (
    AddVhost,
    BrokerCommand,
    ClearPermissions,
    ClearPolicy,
    DeclareQueue,
    DeleteUser,
    DeleteVhost,
    PutUser,
    SetPermissions,
    SetPolicy,
    SetVhostLimits,
    VhostCommand,
)

HASH = "$argon2id$v=19$m=8,t=1,p=1$c2FsdA$aGFzaA"
COMMANDS: list[tuple[BrokerCommand, EventKind]] = [
    (AddVhost("v"), EventKind.VHOST_ADDED),
    (DeleteVhost("v"), EventKind.VHOST_DELETED),
    (PutUser("ann", HASH, ("management",)), EventKind.USER_SET),
    (DeleteUser("ann"), EventKind.USER_DELETED),
    (SetPermissions("ann", "v", "a", "b", "c"), EventKind.PERMISSIONS_SET),
    (ClearPermissions("ann", "v"), EventKind.PERMISSIONS_CLEARED),
]


@pytest.mark.parametrize(("command", "kind"), COMMANDS)
def test_a_change_names_its_user_and_its_virtual_host(
    command: BrokerCommand, kind: EventKind
) -> None:
    event = event_of(command)
    assert event.kind is kind
    said = f"{event.party.user} {event.party.vhost} {event.reason} {event.facts}"
    assert "ann" in said or "v" in said
    assert HASH not in said


def test_every_command_has_an_event() -> None:
    assert {type(command) for command, _ in COMMANDS} == set(get_args(BrokerCommand))


def test_patterns_and_tags_are_told() -> None:
    assert event_of(COMMANDS[4][0]).facts == {"configure": "a", "write": "b", "read": "c"}
    assert event_of(COMMANDS[2][0]).facts == {"tags": "management"}


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (SetPolicy("p", "^q", {"max-length": 3, "expires": 4}), EventKind.POLICY_SET),
        (ClearPolicy("p"), EventKind.POLICY_CLEARED),
        (SetVhostLimits(3, 4), EventKind.LIMITS_SET),
    ],
)
def test_policies_and_limits_are_told(command: VhostCommand, kind: EventKind) -> None:
    event = vhost_event_of("v", command)
    assert event is not None
    assert (event.kind, event.party.vhost) == (kind, "v")


def test_topology_is_not() -> None:
    assert vhost_event_of("v", DeclareQueue("q")) is None
