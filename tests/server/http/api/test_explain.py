"""POST /api/explain/{vhost}."""

import json

import pytest

from penstock import Broker
from penstock.broker.topology import SetTopicPermissions
from penstock.server.http.api.explain import COPIES_MAX
from tests.server.http.asking import Pages, problem
from tests.server.opened import pika_connection


def explain(pages: Pages, **body: object) -> dict[str, object]:
    response = pages.ask("POST", "/api/explain/%2F", json.dumps(body).encode())
    assert response.status_code == 200, response.text
    found = response.json()
    assert isinstance(found, dict)
    return found


def steps(answer: dict[str, object]) -> list[dict[str, object]]:
    found = answer["steps"]
    assert isinstance(found, list)
    return found


def queues(answer: dict[str, object]) -> list[str]:
    found = answer["queues"]
    assert isinstance(found, list)
    return [queue["name"] for queue in found]


@pytest.fixture(autouse=True)
def topology(broker: Broker) -> None:
    channel = pika_connection(broker.url).channel()
    channel.exchange_declare("orders", "topic", arguments={"alternate-exchange": "strays"})
    channel.exchange_declare("strays", "fanout")
    channel.exchange_declare("inner", "direct", internal=True)
    channel.queue_declare("eu")
    channel.queue_declare("us")
    channel.queue_declare("lost", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    channel.queue_bind("eu", "orders", "orders.eu.*")
    channel.queue_bind("us", "orders", "orders.us.*")
    channel.queue_bind("lost", "strays")


def test_each_binding_says_why_it_matches_or_not(pages: Pages) -> None:
    answer = explain(pages, exchange="orders", routing_key="orders.eu.new")
    assert (answer["outcome"], queues(answer)) == ("enqueued", ["eu"])
    (step,) = steps(answer)
    assert (step["exchange"], step["type"], step["reached_by"]) == ("orders", "topic", "publish")
    bindings = step["bindings"]
    assert isinstance(bindings, list)
    assert [(one["destination"], one["matched"]) for one in bindings] == [
        ("eu", True),
        ("us", False),
    ]
    assert bindings[1]["reason"] == (
        "the pattern 'orders.us.*' does not match: word 2 of 'orders.eu.new' is 'eu', not 'us'"
    )


def test_an_alternate_exchange_and_a_full_queue_are_explained(pages: Pages) -> None:
    answer = explain(pages, exchange="orders", routing_key="else")
    assert [step["exchange"] for step in steps(answer)] == ["orders", "strays"]
    assert "alternate exchange 'strays' gets it" in str(steps(answer)[0]["note"])
    assert steps(answer)[1]["reached_by"] == "alternate exchange"
    assert answer["outcome"] == "refused"
    assert "full and refuses" in str(answer["reason"])


def test_carbon_copies_and_the_default_exchange_are_explained(pages: Pages) -> None:
    answer = explain(pages, exchange="", routing_key="eu", headers={"CC": ["us"], "BCC": ["none"]})
    assert answer["routing_keys"] == ["eu", "us", "none"]
    assert queues(answer) == ["eu", "us"]
    assert explain(pages, exchange="amq.default", routing_key="none")["outcome"] == "unrouted"


def test_a_user_without_the_right_is_told_of(broker: Broker, pages: Pages) -> None:
    broker.add_user("ann", "secret", ())
    broker.set_permissions("ann", "/", ".*", "^strays$", ".*")
    refused = explain(pages, exchange="orders", routing_key="orders.eu.new", user="ann")
    assert refused["outcome"] == "refused"
    assert refused["permission"] == {
        "user": "ann",
        "allowed": False,
        "reason": "the write permission '^strays$' does not match 'orders'",
    }
    assert explain(pages, exchange="strays", user="nobody")["outcome"] == "refused"
    guest = explain(pages, exchange="orders", routing_key="orders.eu.new", user="guest")
    assert guest["outcome"] == "enqueued"


def test_topic_permissions_are_a_part_of_the_right(broker: Broker, pages: Pages) -> None:
    broker.add_user("ann", "secret", ())
    broker.set_permissions("ann", "/")
    broker.apply(SetTopicPermissions("ann", "/", "orders", "eu", ""))
    allowed = explain(pages, exchange="orders", routing_key="orders.eu.new", user="ann")
    assert allowed["outcome"] == "enqueued"
    refused = explain(pages, exchange="orders", routing_key="orders.us.new", user="ann")
    assert (refused["outcome"], queues(refused)) == ("refused", ["us"])
    assert "routing key 'orders.us.new'" in str(refused["reason"])
    copies = {"CC": ["orders.us.old"]}
    copied = explain(
        pages, exchange="orders", routing_key="orders.eu.new", headers=copies, user="ann"
    )
    assert "routing key 'orders.us.old'" in str(copied["reason"])


def test_only_administrators_ask_for_the_permissions_of_others(
    broker: Broker, pages: Pages
) -> None:
    broker.add_user("eve", "secret", ("management",))
    broker.set_permissions("eve", "/")
    eve = Pages(broker, ("eve", "secret"))
    assert explain(eve, exchange="strays", user="eve")["permission"]
    body = json.dumps({"exchange": "strays", "user": "guest"}).encode()
    problem(eve.ask("POST", "/api/explain/%2F", body), 403)


def test_the_number_of_copies_is_limited(pages: Pages) -> None:
    """Each of their keys is compared with each binding."""
    keys = [str(number) for number in range(COPIES_MAX)]
    allowed = explain(pages, exchange="orders", routing_key="k", headers={"CC": keys})
    assert allowed["routing_keys"] == ["k", *keys]
    body = json.dumps({"exchange": "orders", "headers": {"CC": keys, "BCC": ["one more"]}})
    refused = problem(pages.ask("POST", "/api/explain/%2F", body.encode()), 400)
    assert refused["reason"] == f"CC and BCC have more than {COPIES_MAX} routing keys"


def test_an_internal_exchange_is_refused(pages: Pages) -> None:
    assert explain(pages, exchange="inner")["outcome"] == "refused"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"exchange": "none"}, 404),
        ({"exchange": 5}, 400),
        ({"exchange": "", "headers": []}, 400),
        ({"exchange": "", "headers": {"CC": "no list"}}, 400),
        ({"exchange": "", "headers": {"n" * 300: 1}}, 400),
        ({"exchange": "", "headers": {"n": 2**70}}, 400),
        ({"exchange": "", "headers": {"a": 1}, "properties": {"headers": {}}}, 400),
        ({"exchange": "", "properties": {"expiration": "soon"}}, 400),
        ({"exchange": "", "properties": {"priority": 256}}, 400),
        ({"exchange": "", "properties": {"colour": "blue"}}, 400),
        ({"exchange": "", "properties": {"type": "x" * 256}}, 400),
        ({"exchange": "", "properties": {"type": "\ud800"}}, 400),
        ({"exchange": "", "headers": {"\ud800": "\ud800"}}, 400),
        ({"exchange": "", "payload_bytes": 2**64}, 400),
        ({"exchange": "", "routing_key": "k" * 300}, 400),
    ],
)
def test_what_no_publisher_could_say_is_refused(
    pages: Pages, body: dict[str, object], status: int
) -> None:
    problem(pages.ask("POST", "/api/explain/%2F", json.dumps(body).encode()), status)


def test_an_unknown_virtual_host_is_not_found(pages: Pages) -> None:
    problem(pages.ask("POST", "/api/explain/none", b'{"exchange": ""}'), 404)
