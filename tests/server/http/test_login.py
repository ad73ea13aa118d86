"""Logins over HTTP are the broker's own: same users, same delays, same rule for the default one."""

import base64
import time

import pytest

from penstock import Broker
from tests.server.http.asking import GUEST, Pages, problem


def header(text: bytes) -> str:
    return "Basic " + base64.b64encode(text).decode()


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer abc", "Basic", "Basic !!!", header(b"guest"), header(b"\xff\xfe:guest")],
)
def test_what_is_no_login_is_refused_with_a_challenge(pages: Pages, authorization: str) -> None:
    stranger = Pages(pages.broker, None)
    headers = {"authorization": authorization} if authorization else {}
    response = stranger.get("/metrics", **headers)
    assert "what_to_do" in problem(response, 401)
    assert response.headers["www-authenticate"].startswith("Basic realm=")


def test_wrong_passwords_wait_longer_and_longer(pages: Pages) -> None:
    wrong = Pages(pages.broker, ("guest", "wrong"))
    waits = []
    for _ in range(3):
        began = time.monotonic()
        assert problem(wrong.get("/metrics"), 401)["reason"] == "the login was refused"
        waits.append(time.monotonic() - began)
    # 100, 200 and 400 ms; what else the machine does only adds to it.
    assert waits[0] >= 0.1
    assert waits[1] >= 0.2
    assert waits[2] >= 0.4
    assert pages.get("/metrics").status_code == 200


def test_a_user_that_is_not_there_is_refused_alike(pages: Pages) -> None:
    nobody = Pages(pages.broker, ("nobody", "guest"))
    assert problem(nobody.get("/metrics"), 401)["reason"] == "the login was refused"


def test_a_changed_password_counts_at_once(pages: Pages) -> None:
    pages.broker.add_user("u", "first", ("monitoring",))
    assert Pages(pages.broker, ("u", "first")).get("/metrics").status_code == 200
    pages.broker.add_user("u", "second", ("monitoring",))
    assert Pages(pages.broker, ("u", "first")).get("/metrics").status_code == 401
    assert Pages(pages.broker, ("u", "second")).get("/metrics").status_code == 200


@pytest.mark.parametrize("name", ["X-Forwarded-For", "Forwarded"])
def test_the_default_user_is_not_let_in_through_a_proxy(pages: Pages, name: str) -> None:
    response = pages.ask("GET", "/metrics", headers={name: "192.0.2.7"})
    problem(response, 401)
    pages.broker.add_user("u", "p", ("monitoring",))
    other = Pages(pages.broker, ("u", "p"))
    assert other.ask("GET", "/metrics", headers={name: "192.0.2.7"}).status_code == 200


@pytest.mark.parametrize(
    ("tags", "metrics", "listing"),
    [
        ((), 403, 403),
        (("management",), 403, 200),
        (("monitoring",), 200, 200),
        (("administrator",), 200, 200),
    ],
)
def test_tags_open_metrics_and_lists(
    broker: Broker, tags: tuple[str, ...], metrics: int, listing: int
) -> None:
    broker.add_user("u", "p", tags)
    broker.set_permissions("u", "/")
    user = Pages(broker, ("u", "p"))
    assert user.get("/metrics").status_code == metrics
    assert user.get("/metrics/per-queue").status_code == metrics
    assert user.get("/api/streams/%2F").status_code == listing
    assert Pages(broker, GUEST).get("/metrics").status_code == 200
