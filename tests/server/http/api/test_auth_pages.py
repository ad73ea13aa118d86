"""Logging in by a form, and the counts of logins."""

import httpx

from tests.server.http.asking import Pages, problem


def log_in(pages: Pages, name: str, password: str) -> httpx.Response:
    return httpx.post(
        f"{pages.broker.http_url}/api/login",
        data={"username": name, "password": password},
        timeout=60,
    )


def test_a_form_logs_in_and_no_cookie_is_set(pages: Pages) -> None:
    response = log_in(pages, "guest", "guest")
    assert (response.status_code, response.json()) == (200, "ok")
    assert "set-cookie" not in response.headers
    problem(log_in(pages, "guest", "wrong"), 401)
    problem(log_in(pages, "", ""), 401)


def test_logins_are_counted(pages: Pages) -> None:
    before = pages.get("/api/auth/attempts/any").json()[0]
    log_in(pages, "guest", "wrong")
    after = pages.get("/api/auth/attempts/any").json()[0]
    assert after["auth_attempts_failed"] == before["auth_attempts_failed"] + 1
    assert after["auth_attempts_succeeded"] == before["auth_attempts_succeeded"] + 1
    assert after["protocol"] == "http"


def test_failures_at_the_form_meet_the_same_delay_as_all_others(pages: Pages) -> None:
    """Four failures wait 100, 200, 400 and 800 ms."""
    started = httpx.get(f"{pages.broker.http_url}/", timeout=60).elapsed
    waits = [log_in(pages, "guest", "wrong").elapsed for _ in range(4)]
    assert waits[3].total_seconds() > 0.7, (started, waits)
    assert waits[3] > waits[0]
