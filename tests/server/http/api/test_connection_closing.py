"""Closing connections over HTTP."""

import pika
import pika.exceptions
import pytest

from penstock.broker.events import EventKind
from tests.server.http.api.administering import done, listening, sent, user_of
from tests.server.http.asking import Pages, problem
from tests.server.opened import pika_connection

SECONDS = 60


def name_of(connection: pika.BlockingConnection) -> str:
    host, port = connection._impl._transport._sock.getsockname()
    return f"{host}:{port} -> 127.0.0.1:5672"


def reason_of_end(connection: pika.BlockingConnection) -> tuple[int, str]:
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
        connection.process_data_events(time_limit=SECONDS)
    return caught.value.reply_code, caught.value.reply_text


def test_the_client_and_the_log_hear_the_reason(pages: Pages) -> None:
    connection = pika_connection(pages.broker.url)
    other = pika_connection(pages.broker.url)
    events = listening(pages.broker)
    path = f"/api/connections/{name_of(connection)}"
    assert sent(pages, "DELETE", path, X_Reason="go away").status_code == 204
    code, text = reason_of_end(connection)
    assert code == 320 and "go away" in text
    event = events.of(EventKind.CONNECTION_CLOSE_REQUESTED)
    assert event.facts["by"] == "guest" and event.facts["close_reason"] == "go away"
    assert other.is_open
    problem(sent(pages, "DELETE", path), 404)


def test_a_reason_is_cut_to_what_a_frame_has_room_for(pages: Pages) -> None:
    connection = pika_connection(pages.broker.url)
    path = f"/api/connections/{name_of(connection)}"
    assert sent(pages, "DELETE", path, X_Reason="long " * 200 + ".").status_code == 204
    assert reason_of_end(connection)[1].count("long") == 36


def test_a_user_closes_its_own_connections_only(pages: Pages) -> None:
    anna = user_of(pages, "anna", "management", configure=".*")
    own = pika_connection(pages.broker.url_for("anna", "p"))
    foreign = pika_connection(pages.broker.url)
    problem(sent(anna, "DELETE", f"/api/connections/{name_of(foreign)}"), 403)
    problem(sent(anna, "DELETE", "/api/connections/username/guest"), 403)
    assert foreign.is_open
    done(anna, "DELETE", f"/api/connections/{name_of(own)}")
    assert reason_of_end(own)[0] == 320


def test_an_administrator_closes_all_connections_of_a_user(pages: Pages) -> None:
    user_of(pages, "anna", "", configure=".*")
    hers = [pika_connection(pages.broker.url_for("anna", "p")) for _ in range(2)]
    other = pika_connection(pages.broker.url)
    done(pages, "DELETE", "/api/connections/username/anna")
    assert [reason_of_end(connection)[0] for connection in hers] == [320, 320]
    assert other.is_open
