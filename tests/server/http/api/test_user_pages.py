"""Users: who may change them, what is kept of a password, what the log says."""

from pathlib import Path

import pika
import pika.exceptions
import pytest

from penstock import Broker
from penstock.broker.events import EventKind
from tests.server.http.api.administering import done, listening, looked_at, sent, user_of
from tests.server.http.asking import Pages, problem, serving


def may_log_in(broker: Broker, name: str, password: str) -> bool:
    try:
        pika.BlockingConnection(pika.URLParameters(broker.url_for(name, password))).close()
    except pika.exceptions.ProbableAuthenticationError:
        return False
    except pika.exceptions.ProbableAccessDeniedError:
        # Let in, but not into the virtual host.
        return True
    return True


def test_a_password_opens_the_user_over_http_and_amqp(pages: Pages) -> None:
    user = user_of(pages, "anna", "management")
    assert user.facts("/api/whoami") == {"name": "anna", "tags": ["management"]}
    assert may_log_in(pages.broker, "anna", "p")
    done(pages, "PUT", "/api/users/anna", {"password": "other", "tags": []})
    assert not may_log_in(pages.broker, "anna", "p")
    assert may_log_in(pages.broker, "anna", "other")


@pytest.mark.parametrize("body", [{"password_hash": ""}, {"password": ""}, {}])
def test_a_user_without_a_password_cannot_log_in(pages: Pages, body: dict[str, str]) -> None:
    done(pages, "PUT", "/api/users/anna", {**body, "tags": ""})
    assert pages.facts("/api/users/anna")["password_hash"] == ""
    assert not may_log_in(pages.broker, "anna", "")


def test_a_hash_of_rabbitmq_is_taken_over(pages: Pages) -> None:
    # Of "test12", from RabbitMQ's documentation of its algorithm.
    given = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
    body = {
        "password_hash": given,
        "hashing_algorithm": "rabbit_password_hashing_sha256",
        "tags": "monitoring",
    }
    done(pages, "PUT", "/api/users/anna", body)
    shown = pages.facts("/api/users/anna")
    assert (shown["password_hash"], shown["hashing_algorithm"]) == (
        given,
        "rabbit_password_hashing_sha256",
    )
    assert may_log_in(pages.broker, "anna", "test12")
    problem(sent(pages, "PUT", "/api/users/b", {**body, "hashing_algorithm": "md5"}), 400)


def test_the_default_user_stays_on_this_machine_when_its_password_changes(pages: Pages) -> None:
    done(pages, "PUT", "/api/users/guest", {"password": "new", "tags": "administrator"})
    user = looked_at(pages.broker, lambda node: node.state.users.find("guest"))
    assert getattr(user, "loopback_only") is True  # noqa: B009 - found on another thread


def test_several_users_are_deleted_or_none(pages: Pages) -> None:
    user_of(pages, "anna")
    user_of(pages, "bert")
    problem(sent(pages, "POST", "/api/users/bulk-delete", {"users": ["anna", "nobody"]}), 400)
    assert pages.get("/api/users/anna").status_code == 200
    done(pages, "POST", "/api/users/bulk-delete", {"users": ["anna", "bert", "anna"]})
    assert pages.get("/api/users/anna").status_code == 404
    assert pages.get("/api/users/bert").status_code == 404


@pytest.mark.parametrize("tags", ["", "management", "policymaker", "monitoring"])
def test_only_an_administrator_sees_and_changes_users(pages: Pages, tags: str) -> None:
    other = user_of(pages, "anna", tags, configure=".*", write=".*", read=".*")
    for method, path, body in (
        ("GET", "/api/users", None),
        ("GET", "/api/users/guest", None),
        ("PUT", "/api/users/anna", {"password": "p", "tags": "administrator"}),
        ("DELETE", "/api/users/guest", None),
        ("POST", "/api/users/bulk-delete", {"users": ["guest"]}),
        ("PUT", "/api/permissions/%2F/anna", {"configure": "", "write": "", "read": ""}),
        ("PUT", "/api/vhosts/other", {}),
        ("PUT", "/api/user-limits/anna/max-channels", {"value": 1}),
        ("PUT", "/api/vhost-limits/%2F/max-queues", {"value": 1}),
        ("PUT", "/api/global-parameters/g", {"value": 1}),
        ("PUT", "/api/operator-policies/%2F/p", {"pattern": "", "definition": {"expires": 1}}),
        ("PUT", "/api/parameters/vhost-limits/%2F/limits", {"value": {"max-queues": 1}}),
        ("PUT", "/api/cluster-name", {"name": "x"}),
        ("GET", "/api/definitions", None),
        ("POST", "/api/definitions", {}),
    ):
        problem(sent(other, method, path, body), 403)


@pytest.mark.parametrize("name", ["%FF", "a" * 256, "%ED%A0%80"])
def test_a_name_that_cannot_be_one_is_refused(pages: Pages, name: str) -> None:
    problem(sent(pages, "PUT", f"/api/users/{name}", {"password": "p", "tags": ""}), 400)


def test_a_user_is_there_after_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as broker:
        user_of(Pages(broker), "anna", "management", configure="^c", write="^w", read="^r")
    with serving(tmp_path / "data") as broker:
        assert Pages(broker, ("anna", "p")).facts("/api/whoami")["tags"] == ["management"]
        row = Pages(broker).facts("/api/permissions/%2F/anna")
        assert (row["configure"], row["write"], row["read"]) == ("^c", "^w", "^r")


def test_the_log_says_who_changed_what_from_where_without_the_password(pages: Pages) -> None:
    events = listening(pages.broker)
    done(pages, "PUT", "/api/users/anna", {"password": "very-secret", "tags": "management"})
    event = events.of(EventKind.USER_SET)
    assert (event.party.user, event.party.peer_host) == ("anna", "127.0.0.1")
    assert event.party.peer_port > 0
    assert event.facts == {"tags": "management", "by": "guest", "door": "HTTP"}


def test_a_change_of_tags_alone_keeps_the_login_with_scram(pages: Pages) -> None:
    user_of(pages, "anna", "management")
    before = looked_at(pages.broker, lambda node: node.state.users.scram_text("anna"))
    assert before
    known = pages.facts("/api/users/anna")
    body = {key: known[key] for key in ("password_hash", "hashing_algorithm")}
    done(pages, "PUT", "/api/users/anna", {**body, "tags": ["monitoring"]})
    assert looked_at(pages.broker, lambda node: node.state.users.scram_text("anna")) == before
