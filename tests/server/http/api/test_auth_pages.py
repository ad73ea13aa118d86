"""Logging in by a form, and the counts of logins."""

import httpx
import pika.exceptions
import pytest

from penstock import Broker
from tests.server.http.asking import Pages, problem
from tests.server.http.doubles import WebSocketRelay
from tests.server.opened import pika_connection


def log_in(pages: Pages, name: str, password: str) -> httpx.Response:
    return httpx.post(
        f"{pages.broker.http_url}/api/login",
        data={"username": name, "password": password},
        timeout=60,
    )


def counted(pages: Pages, protocol: str) -> tuple[int, int]:
    """Failed and succeeded logins."""
    for row in pages.get("/api/auth/attempts/any").json():
        if row["protocol"] == protocol:
            assert row["auth_attempts"] == sum(
                (row["auth_attempts_failed"], row["auth_attempts_succeeded"])
            )
            return row["auth_attempts_failed"], row["auth_attempts_succeeded"]
    raise AssertionError(f"no logins of {protocol} are counted")


def test_a_form_logs_in_and_no_cookie_is_set(pages: Pages) -> None:
    response = log_in(pages, "guest", "guest")
    assert (response.status_code, response.json()) == (200, "ok")
    assert "set-cookie" not in response.headers
    problem(log_in(pages, "guest", "wrong"), 401)
    problem(log_in(pages, "", ""), 401)


def test_logins_are_counted(pages: Pages) -> None:
    before = counted(pages, "http")
    log_in(pages, "guest", "wrong")
    assert counted(pages, "http") == (before[0] + 1, before[1] + 1)


def test_logins_over_amqp_are_counted_over_websockets_too(broker: Broker, pages: Pages) -> None:
    before = counted(pages, "amqp091")
    pika_connection(broker.url)
    assert counted(pages, "amqp091") == (before[0], before[1] + 1)
    wrong = broker.url.replace("guest:guest", "guest:wrong")
    assert wrong != broker.url
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika_connection(wrong)
    assert counted(pages, "amqp091") == (before[0] + 1, before[1] + 1)
    relay = WebSocketRelay(f"ws://127.0.0.1:{broker.http_port}/ws")
    try:
        pika_connection(f"amqp://127.0.0.1:{relay.port}").close()
    finally:
        relay.close()
    assert counted(pages, "amqp091") == (before[0] + 1, before[1] + 2)
    assert counted(pages, "amqp10") == (0, 0)


def test_failures_at_the_form_meet_the_same_delay_as_all_others(pages: Pages) -> None:
    """Four failures wait 100, 200, 400 and 800 ms."""
    started = httpx.get(f"{pages.broker.http_url}/", timeout=60).elapsed
    waits = [log_in(pages, "guest", "wrong").elapsed for _ in range(4)]
    assert waits[3].total_seconds() > 0.7, (started, waits)
    assert waits[3] > waits[0]
