"""What connections notice of an operator's changes, and the line that is written about each."""

import pytest

from penstock.broker.access.actor import HTTP, Actor
from penstock.broker.definitions.parsing import BrokerStep, Step, VhostStep
from penstock.broker.errors import NotFound
from penstock.broker.events import EventKind
from penstock.broker.topology import (
    AddVhost,
    CloseConnection,
    DeclareQueue,
    DeleteUser,
    PutUser,
    SetPermissions,
)
from penstock.client.events import ConnectionClosed
from tests.seeds.doubles import NOW, House
from tests.support.recorded_events import RecordedEvents

ACTOR = Actor("root", "192.0.2.7", 5555, HTTP)


def recorded(house: House) -> RecordedEvents:
    events = RecordedEvents()
    house.node.container.events = events
    return events


def test_a_connection_is_closed_on_request_and_its_client_hears_why() -> None:
    house = House()
    one, other = house.client(), house.client()
    events = recorded(house)
    house.node.apply(CloseConnection(one.connection.number, "maintenance"), NOW, ACTOR)
    house.settle()
    [closed] = [event for event in one.events if isinstance(event, ConnectionClosed)]
    assert "maintenance" in str(closed.error)
    assert not [event for event in other.events if isinstance(event, ConnectionClosed)]
    line = events.of(EventKind.CONNECTION_CLOSE_REQUESTED)
    assert (line.party.user, line.party.vhost, line.party.peer()) == (
        "guest",
        "/",
        "192.0.2.7:5555",
    )
    assert line.facts == {
        "closed": one.connection.number,
        "close_reason": "maintenance",
        "by": "root",
        "door": "HTTP",
    }


def test_a_connection_that_is_not_there_cannot_be_closed() -> None:
    house = House()
    events = recorded(house)
    with pytest.raises(NotFound, match="no connection 77"):
        house.node.apply(CloseConnection(77, ""), NOW, ACTOR)
    assert events.events == []


def test_a_deleted_user_loses_its_connections() -> None:
    house = House()
    client = house.client()
    house.node.apply(PutUser("ann", ""), NOW, ACTOR)
    house.node.apply(DeleteUser("ann"), NOW, ACTOR)
    house.settle()
    assert not [event for event in client.events if isinstance(event, ConnectionClosed)]
    house.node.apply(DeleteUser("guest"), NOW, ACTOR)
    house.settle()
    [closed] = [event for event in client.events if isinstance(event, ConnectionClosed)]
    assert "user 'guest' is deleted" in str(closed.error)


def test_a_change_that_is_refused_is_not_told() -> None:
    house = House()
    events = recorded(house)
    with pytest.raises(NotFound):
        house.node.apply(SetPermissions("nobody", "/", "", "", ""), NOW, ACTOR)
    assert events.events == []


def test_imported_definitions_are_told_once() -> None:
    house = House()
    events = recorded(house)
    steps: list[Step] = [
        BrokerStep("vhosts[0]", AddVhost("v")),
        VhostStep("queues[0]", "v", DeclareQueue("q", durable=True)),
        BrokerStep("permissions[0]", SetPermissions("guest", "v", "a", "b", "c")),
    ]
    house.node.import_steps(steps, NOW, ACTOR, "orders.json")
    assert "q" in house.node.state.vhost("v").queues
    assert events.kinds == [EventKind.DEFINITIONS_IMPORTED]
    assert events.events[0].facts == {
        "file": "orders.json",
        "definitions": 3,
        "by": "root",
        "door": "HTTP",
    }
    assert events.events[0].is_audit
