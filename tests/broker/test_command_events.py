"""Administration as events: every command has one, and none has a secret."""

from typing import get_args

import pytest

from penstock.broker.access.actor import AMQP10_MANAGEMENT, HTTP, NOBODY, Actor
from penstock.broker.command_events import event_of, is_change, vhost_event_of
from penstock.broker.events import EventKind
from penstock.broker.shared_services import SharedServices
from penstock.broker.topology import (
    AddVhost,
    BindExchange,
    BindQueue,
    BrokerCommand,
    ClearGlobalParameter,
    ClearOperatorPolicy,
    ClearParameter,
    ClearPermissions,
    ClearPolicy,
    ClearTopicPermissions,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DeleteUser,
    DeleteVhost,
    NumberFrom,
    PurgeQueue,
    PutUser,
    SetGlobalParameter,
    SetOperatorPolicy,
    SetParameter,
    SetPermissions,
    SetPolicy,
    SetTopicPermissions,
    SetUserLimits,
    SetVhostLimits,
    VhostCommand,
)
from penstock.broker.vhost import VirtualHost

ACTOR = Actor("root", "192.0.2.7", 5555, HTTP)
SECRET = "amqp://ann:secret@upstream"
HASH = "$argon2id$v=19$m=8,t=1,p=1$c2FsdA$aGFzaA"
COMMANDS: list[tuple[BrokerCommand, EventKind]] = [
    (AddVhost("v"), EventKind.VHOST_ADDED),
    (DeleteVhost("v"), EventKind.VHOST_DELETED),
    (PutUser("ann", HASH, ("management",), scram_keys=SECRET), EventKind.USER_SET),
    (DeleteUser("ann"), EventKind.USER_DELETED),
    (SetPermissions("ann", "v", "a", "b", "c"), EventKind.PERMISSIONS_SET),
    (ClearPermissions("ann", "v"), EventKind.PERMISSIONS_CLEARED),
    (SetTopicPermissions("ann", "v", "e", "a", "b"), EventKind.TOPIC_PERMISSIONS_SET),
    (ClearTopicPermissions("ann", "v", "e"), EventKind.TOPIC_PERMISSIONS_CLEARED),
    (SetUserLimits("ann", 3, 4), EventKind.USER_LIMITS_SET),
    (SetGlobalParameter("v", SECRET), EventKind.GLOBAL_PARAMETER_SET),
    (ClearGlobalParameter("v"), EventKind.GLOBAL_PARAMETER_CLEARED),
]


@pytest.mark.parametrize(("command", "kind"), COMMANDS)
def test_a_change_names_its_user_and_its_virtual_host(
    command: BrokerCommand, kind: EventKind
) -> None:
    event = event_of(command, ACTOR)
    assert event.kind is kind
    said = f"{event.party.user} {event.party.vhost} {event.reason} {event.facts}"
    assert "ann" in said or "v" in said
    assert HASH not in said
    assert SECRET not in said
    assert (event.party.peer(), event.facts["by"], event.facts["door"]) == (
        "192.0.2.7:5555",
        "root",
        "HTTP",
    )
    assert event.is_audit


def test_every_command_has_an_event() -> None:
    # The broker itself decides how it numbers.
    commands = set(get_args(BrokerCommand)) - {NumberFrom}
    assert {type(command) for command, _ in COMMANDS} == commands


def test_patterns_and_tags_are_told() -> None:
    assert event_of(SetPermissions("ann", "v", "a", "b", "c"), ACTOR).facts == {
        "configure": "a",
        "write": "b",
        "read": "c",
        "by": "root",
        "door": "HTTP",
    }
    assert event_of(PutUser("ann", HASH, ("management",)), ACTOR).facts["tags"] == "management"


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (SetPolicy("p", "^q", {"max-length": 3, "expires": 4}), EventKind.POLICY_SET),
        (ClearPolicy("p"), EventKind.POLICY_CLEARED),
        (SetVhostLimits(3, 4), EventKind.LIMITS_SET),
        (SetOperatorPolicy("p", "^q", {"max-length": 3}), EventKind.OPERATOR_POLICY_SET),
        (ClearOperatorPolicy("p"), EventKind.OPERATOR_POLICY_CLEARED),
        (SetParameter("federation-upstream", "u", {"uri": SECRET}), EventKind.PARAMETER_SET),
        (ClearParameter("federation-upstream", "u"), EventKind.PARAMETER_CLEARED),
    ],
)
def test_policies_and_limits_are_told(command: VhostCommand, kind: EventKind) -> None:
    event = vhost_event_of("v", command, ACTOR)
    assert event is not None
    assert (event.kind, event.party.vhost) == (kind, "v")
    assert SECRET not in str(event.facts)
    assert event.facts["by"] == "root"


def test_topology_of_clients_is_not() -> None:
    assert vhost_event_of("v", DeclareQueue("q"), NOBODY) is None


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (DeleteQueue("q"), "q"),
        (BindQueue("q", "e", "k"), "k"),
        (BindExchange("d", "e", "k"), "d"),
    ],
)
def test_topology_that_is_changed_over_http_is_told(command: VhostCommand, name: str) -> None:
    event = vhost_event_of("v", command, ACTOR)
    assert event is not None
    assert event.kind is EventKind.TOPOLOGY_CHANGED
    assert event.facts["change"] == type(command).__name__
    assert name in event.facts.values()
    assert event.is_audit


def test_topology_that_clients_change_over_amqp_10_may_be_left_out_of_the_log() -> None:
    actor = Actor("ann", "192.0.2.7", 5555, AMQP10_MANAGEMENT)
    event = vhost_event_of("v", DeleteQueue("q"), actor)
    assert event is not None
    assert not event.is_audit


@pytest.mark.parametrize(
    ("command", "changes"),
    [
        (DeclareQueue("q"), False),
        (DeclareQueue("new"), True),
        (DeleteQueue("q"), True),
        (DeleteQueue("new"), False),
        (DeclareExchange("amq.topic", "topic"), False),
        (DeclareExchange("new", "topic"), True),
        (DeleteExchange("amq.topic"), True),
        (DeleteExchange("new"), False),
        (PurgeQueue("q"), True),
    ],
)
def test_what_is_there_already_is_not_changed(command: VhostCommand, changes: bool) -> None:
    vhost = VirtualHost("/", SharedServices())
    vhost.apply(DeclareQueue("q"), 0)
    assert is_change(vhost, command) is changes
