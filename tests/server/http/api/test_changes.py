"""What the audit log says of changes over HTTP: who, from where, at which door, and no secret."""

import pika

from penstock.broker.events import Event, EventKind
from tests.server.http.api.administering import (
    EVERYTHING,
    done,
    listening,
    looked_at,
    sent,
    user_of,
)
from tests.server.http.api.test_connection_closing import name_of
from tests.server.http.asking import Pages
from tests.server.opened import pika_connection
from tests.support.recorded_events import RecordedEvents

# Of `user_of`; so short that it would be found in any line.
PASSWORD = "p"
SECRET = "very-secret"


def audited(events: RecordedEvents, kind: EventKind, by: str) -> Event:
    """The one line of a change that `by` has made."""
    event = events.of(kind)
    assert event.is_audit
    assert (event.facts["by"], event.facts["door"]) == (by, "HTTP")
    assert event.party.peer_host == "127.0.0.1" and event.party.peer_port > 0
    for told in events.events:
        for text in (told.party, told.reason, *told.facts.items()):
            assert SECRET not in str(text)
    return event


def anna_of(pages: Pages) -> Pages:
    done(pages, "PUT", "/api/users/anna", {"password": SECRET, "tags": "administrator"})
    done(pages, "PUT", "/api/permissions/%2F/anna", EVERYTHING)
    return Pages(pages.broker, ("anna", SECRET))


def test_arguments_that_change_are_named_without_their_values(pages: Pages) -> None:
    anna = anna_of(pages)
    done(pages, "PUT", "/api/queues/%2F/q")
    events = listening(pages.broker)
    changes = {"x-max-length": 9, "x-dead-letter-exchange": SECRET}
    done(anna, "PATCH", "/api/queues/%2F/q", {"arguments": changes})
    event = audited(events, EventKind.ARGUMENTS_CHANGED, "anna")
    assert event.party.vhost == "/"
    assert event.facts["queue"] == "q"
    assert event.facts["arguments"] == "x-dead-letter-exchange x-max-length"


def test_a_move_is_told_when_it_begins(pages: Pages) -> None:
    anna = anna_of(pages)
    for queue in ("from", "to"):
        done(pages, "PUT", f"/api/queues/%2F/{queue}")
    events = listening(pages.broker)
    body = {"destination": "to", "selector": f"account = '{SECRET}'"}
    done(anna, "POST", "/api/queues/%2F/from/move", body)
    event = audited(events, EventKind.MOVE_BEGUN, "anna")
    assert event.party.vhost == "/"
    assert (event.facts["queue"], event.facts["destination"]) == ("from", "to")


def test_the_end_of_a_move_that_is_cancelled_is_told_once(pages: Pages) -> None:
    anna = anna_of(pages)
    for queue in ("from", "to"):
        done(pages, "PUT", f"/api/queues/%2F/{queue}")
    # Moves wait while an alarm blocks publishers, so this one cannot be over before it is cancelled.
    looked_at(pages.broker, lambda node: node.set_alarm("memory", "low", 1))
    body = {"destination": "to", "wait_ms": 0}
    number = sent(anna, "POST", "/api/queues/%2F/from/move", body).json()["number"]
    events = listening(pages.broker)
    for _ in range(2):
        done(anna, "DELETE", f"/api/queues/%2F/from/moves/{number}")
    event = audited(events, EventKind.MOVE_CANCELLED, "anna")
    assert event.party.vhost == "/"
    assert (event.facts["queue"], event.facts["move"]) == ("from", number)


def test_an_import_of_definitions_is_one_line(pages: Pages) -> None:
    anna = anna_of(pages)
    events = listening(pages.broker)
    body = {
        "users": [{"name": "bert", "password": SECRET, "tags": []}],
        "permissions": [{"user": "bert", "vhost": "/", **EVERYTHING}],
        "parameters": [
            {
                "component": "federation-upstream",
                "vhost": "/",
                "name": "u",
                "value": {"uri": f"amqp://u:{SECRET}@h"},
            }
        ],
    }
    done(anna, "POST", "/api/definitions", body)
    assert audited(events, EventKind.DEFINITIONS_IMPORTED, "anna").facts["definitions"] == 3


def test_closing_a_connection_names_whose_it_was_and_who_closed_it(pages: Pages) -> None:
    anna = anna_of(pages)
    user_of(pages, "bert", "", configure=".*")
    connection = pika_connection(pages.broker.url_for("bert", PASSWORD))
    events = listening(pages.broker)
    closed = sent(anna, "DELETE", f"/api/connections/{name_of(connection)}", X_Reason="go away")
    assert closed.status_code == 204, closed.text
    event = audited(events, EventKind.CONNECTION_CLOSE_REQUESTED, "anna")
    assert (event.party.user, event.party.vhost) == ("bert", "/")
    assert event.facts["close_reason"] == "go away"
    assert event.party.peer_port != own_port(connection)


def own_port(connection: pika.BlockingConnection) -> int:
    port = connection._impl._transport._sock.getsockname()[1]
    assert isinstance(port, int)
    return port
