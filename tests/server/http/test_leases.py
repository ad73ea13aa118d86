"""Leases over HTTP: taken, read again, settled, given back, by those who may."""

import json
from pathlib import Path

import httpx
import pytest
from pika import BasicProperties

from penstock import Broker
from tests.server.http.asking import Pages, declared, problem, publish, serving
from tests.server.http.rows import read_block

BODIES = [b"%d" % number for number in range(10)]


def leasing(pages: Pages, **wanted: object) -> httpx.Response:
    body = {"owner": "job", "number": 1, **wanted}
    return pages.ask("POST", "/api/leases/%2F/q", json.dumps(body).encode())


def bodies_of(pages: Pages, number: int, query: str = "") -> list[bytes]:
    response = pages.get(f"/api/leases/%2F/q/job/{number}{query}")
    assert response.status_code == 200, response.text
    return [body for _, body, _ in read_block(response.content)]


def left_in(broker: Broker) -> int:
    channel = declared(broker, "q", {})
    return int(channel.queue_declare("q", passive=True).method.message_count)


@pytest.fixture
def filled(kept: Pages) -> Pages:
    publish(declared(kept.broker, "q", {}), "q", BODIES)
    return kept


def test_a_lease_is_the_same_however_often_it_is_asked_for(filled: Pages) -> None:
    first = leasing(filled, messages=4).json()
    assert first == {
        "queue": "q",
        "owner": "job",
        "number": 1,
        "messages": 4,
        "octets": 4,
        "expires_at": 0,
        "created": True,
    }
    assert leasing(filled, messages=9).json() == {**first, "created": False}
    assert bodies_of(filled, 1) == bodies_of(filled, 1) == BODIES[:4]
    assert bodies_of(filled, 1, "?from=1&to=3") == BODIES[1:3]
    assert left_in(filled.broker) == 6


def test_settling_a_number_settles_all_up_to_it(filled: Pages) -> None:
    for number in (1, 2, 3):
        assert leasing(filled, number=number, messages=2).status_code == 200
    settled = filled.ask("DELETE", "/api/leases/%2F/q/job/2")
    assert settled.json() == {"settled": 4}
    assert filled.ask("DELETE", "/api/leases/%2F/q/job/2").json() == {"settled": 0}
    assert "settled" in str(problem(filled.get("/api/leases/%2F/q/job/1"), 404)["reason"])
    assert bodies_of(filled, 3) == BODIES[4:6]


def test_what_is_given_back_says_so_the_next_time(filled: Pages) -> None:
    leasing(filled, messages=2)
    assert filled.ask("POST", "/api/leases/%2F/q/job/1/return").json() == {"returned": 2}
    leasing(filled, number=2)
    rows = read_block(filled.get("/api/leases/%2F/q/job/2").content)
    assert [(body, flags) for _, body, flags in rows[-2:]] == [(b"0", 4), (b"1", 4)]
    assert {flags for _, _, flags in rows[:-2]} == {0}


def test_leases_are_listed_for_all_and_for_one_owner(filled: Pages) -> None:
    leasing(filled, messages=2)
    leasing(filled, owner="other job/é", number=7, messages=3)
    all_leases = filled.facts("/api/leases/%2F")["leases"]
    assert isinstance(all_leases, list)
    assert {(lease["owner"], lease["number"], lease["messages"]) for lease in all_leases} == {
        ("job", 1, 2),
        ("other job/é", 7, 3),
    }
    of_one = filled.facts("/api/leases/%2F/q/other%20job%2F%C3%A9")["leases"]
    assert isinstance(of_one, list)
    assert [lease["number"] for lease in of_one] == [7]


def test_a_lease_that_was_answered_outlives_the_broker(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as running:
        channel = declared(running, "q", {})
        for body in BODIES:
            channel.basic_publish("", "q", body, BasicProperties(delivery_mode=2))
        pages = Pages(running)
        assert leasing(pages, messages=4).json()["created"]
        octets = pages.get("/api/leases/%2F/q/job/1").content
    with serving(tmp_path / "data") as running:
        pages = Pages(running)
        assert bodies_of(pages, 1) == BODIES[:4]
        assert left_in(running) == 6
        assert pages.get("/api/leases/%2F/q/job/1").content == octets


def test_who_may_not_read_the_queue_gets_no_lease(broker: Broker, pages: Pages) -> None:
    declared(broker, "q", {})
    broker.add_user("blind", "secret", ("administrator",))
    broker.set_permissions("blind", "/", ".*", ".*", "^other$")
    blind = Pages(broker, ("blind", "secret"))
    assert "refused" in str(problem(leasing(blind), 403)["reason"])
    assert problem(blind.get("/api/leases/%2F/q/job"), 403)
    assert problem(blind.ask("DELETE", "/api/leases/%2F/q/job/1"), 403)


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({"owner": 7}, "the owner of the lease"),
        ({"ower": "me"}, "the owner of the lease"),
        ({"number": "x"}, "not a number"),
        ({"number": 0}, "must be at least 1"),
        ({"messages": 0}, "at least one"),
        ({"owner": ""}, "1 to 255 bytes"),
    ],
)
def test_a_lease_that_makes_no_sense_is_refused(
    pages: Pages, wanted: dict[str, object], text: str
) -> None:
    declared(pages.broker, "q", {})
    assert text in str(problem(leasing(pages, **wanted), 400)["reason"])


def test_a_stream_has_no_leases_and_a_queue_must_be_there(pages: Pages) -> None:
    assert problem(leasing(pages), 404)
    declared(pages.broker, "q", {"x-queue-type": "stream"})
    assert "read it by offset" in str(problem(leasing(pages), 400)["reason"])
