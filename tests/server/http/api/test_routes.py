"""Operations as they are served, and the document that describes them."""

import base64
import select
from contextlib import ExitStack

import pytest

from tests.server.http.api.administering import done, publish, sent, user_of
from tests.server.http.asking import Pages, problem
from tests.server.http.raw_requests import HOST, LOGIN, first_answer, opened


def test_whoami_names_the_user_and_its_tags(pages: Pages) -> None:
    assert pages.facts("/api/whoami") == {"name": "guest", "tags": ["administrator"]}


def test_without_a_login_there_is_no_answer(pages: Pages) -> None:
    response = Pages(pages.broker, None).get("/api/whoami")
    assert response.status_code == 401
    assert response.json()["error"] == "unauthorized"


def test_a_method_that_a_path_does_not_have_is_refused(pages: Pages) -> None:
    assert pages.ask("DELETE", "/api/whoami").status_code == 405


def test_the_document_describes_every_operation(pages: Pages) -> None:
    document = pages.facts("/api/openapi.json")
    paths = document["paths"]
    assert isinstance(paths, dict)
    assert "get" in paths["/api/whoami"]


def test_a_slash_at_the_end_of_a_path_changes_nothing(pages: Pages) -> None:
    """Flower asks for the queues of the default virtual host with two of them."""
    for path in ("/api/whoami/", "/api/queues//", "/api/exchanges/%2F/"):
        assert pages.get(path).status_code == 200


def head_of(path: bytes, size: int, login: bytes = LOGIN) -> bytes:
    """The beginning of a request whose body is not sent."""
    length = b"Content-Length: %d\r\n" % size
    return b"POST " + path + b" HTTP/1.1\r\n" + HOST + login + length + b"\r\n"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (b"/api/exchanges/missing/amq.direct/publish", 404),
        (b"/api/exchanges/%2F/missing/publish", 404),
        (b"/api/exchanges/%2F/inside/publish", 403),
        (b"/api/definitions/missing", 404),
    ],
)
def test_a_large_body_that_is_for_nothing_is_not_waited_for(
    pages: Pages, path: bytes, status: int
) -> None:
    done(pages, "PUT", "/api/exchanges/%2F/inside", {"internal": True})
    with opened(pages.broker.http_port) as line:
        line.sendall(head_of(path, 1_000_000))
        assert first_answer(line).startswith(b"HTTP/1.1 %d " % status)


def test_a_large_body_of_a_user_without_permission_is_not_waited_for(pages: Pages) -> None:
    user_of(pages, "anna", "management", write="^amq.topic$")
    login = b"Authorization: Basic " + base64.b64encode(b"anna:p") + b"\r\n"
    with opened(pages.broker.http_port) as line:
        line.sendall(head_of(b"/api/exchanges/%2F/amq.direct/publish", 1_000_000, login))
        assert first_answer(line).startswith(b"HTTP/1.1 403 ")


def test_slow_large_bodies_hold_up_neither_other_users_nor_definitions(pages: Pages) -> None:
    other = user_of(pages, "anna", "management", write=".*")
    with ExitStack() as stack:
        slow = [stack.enter_context(opened(pages.broker.http_port)) for _ in range(8)]
        for line in slow:
            line.sendall(head_of(b"/api/exchanges/%2F/amq.direct/publish", 1_000_000))
        assert publish(other, "amq.direct", "k", "x" * 200_000).json() == {"routed": False}
        large = {"queues": [], "rabbit_version": "x" * 200_000}
        assert sent(pages, "POST", "/api/definitions", large).status_code == 204
        # They are still waited for.
        assert select.select(slow, [], [], 0)[0] == []


def test_a_large_body_may_have_a_large_payload_and_nothing_else(pages: Pages) -> None:
    lists: object = [[] for _ in range(100_000)]
    refused = publish(pages, "amq.direct", "k", properties={"headers": {"a": lists}})
    assert "longer than 262144 characters" in str(problem(refused, 400)["reason"])
    assert publish(pages, "amq.direct", "k", "x" * 6_000_000).json() == {"routed": False}
