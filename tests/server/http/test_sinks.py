"""Sinks over HTTP: rows are staged, committed, and published once."""

import json
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from penstock import Broker
from penstock.broker.errors import PreconditionFailed
from penstock.broker.sinks.expiry import IDLE_MS_MAX
from penstock.broker.topology import SetTopicPermissions
from penstock.server.http.ended_sinks import EndedSinks
from penstock.server.http.settings import ROWS_BYTES_MAX
from penstock.wire.amqp091.content import BasicProperties
from tests.server.http.asking import STREAM, Pages, declared, problem, serving
from tests.server.http.rows import Row, block
from tests.server.opened import pika_connection
from tests.server.raw_client import wait_for

SINK = "/api/sinks/%2F/job"


def rows(count: int, key: str = "q", first: int = 0) -> bytes:
    return block([Row(key, b"%d" % number) for number in range(first, first + count)])


def staging(
    pages: Pages,
    octets: bytes,
    batch: int = 0,
    partition: int = 0,
    attempt: int = 0,
    query: str = "",
) -> httpx.Response:
    path = f"{SINK}/batches/{batch}/partitions/{partition}/attempts/{attempt}{query}"
    return pages.ask("POST", path, octets)


def committing(
    pages: Pages, batch: int, *attempts: tuple[int, int, int], **more: object
) -> httpx.Response:
    body = json.dumps({"attempts": attempts, **more}).encode()
    return pages.ask("POST", f"{SINK}/batches/{batch}/commit", body)


def in_queue(broker: Broker, name: str = "q") -> list[bytes]:
    channel = pika_connection(broker.url).channel()
    found: list[bytes] = []
    while True:
        method, _, body = channel.basic_get(name, auto_ack=True)
        if method is None:
            return found
        found.append(body)


def test_a_batch_is_published_when_its_commit_is_answered(kept: Pages) -> None:
    declared(kept.broker, "q", {})
    assert staging(kept, rows(3)).json() == {"staged": 3}
    assert staging(kept, rows(2, first=3)).json() == {"staged": 5}
    assert staging(kept, rows(2, first=5), partition=1).json() == {"staged": 2}
    assert in_queue(kept.broker) == []
    assert committing(kept, 0, (0, 0, 5), (1, 0, 2)).json() == {
        "batch": 0,
        "published": True,
        "repeated": False,
        "last_batch": 0,
        "unroutable": 0,
    }
    assert in_queue(kept.broker) == [b"%d" % number for number in range(7)]


def test_a_commit_that_comes_again_is_dropped(kept: Pages) -> None:
    declared(kept.broker, "q", {})
    for attempt in (0, 1):
        staging(kept, rows(3), batch=4, attempt=attempt)
        answer = committing(kept, 4, (0, attempt, 3)).json()
        assert (answer["published"], answer["repeated"]) == (True, attempt == 1)
    assert committing(kept, 2, (0, 0, 3)).json()["last_batch"] == 4
    assert in_queue(kept.broker) == [b"0", b"1", b"2"]


def test_rows_that_are_sent_again_are_staged_once(kept: Pages) -> None:
    declared(kept.broker, "q", {})
    for _ in range(2):
        assert staging(kept, rows(3), query="?first=0").json() == {"staged": 3}
    for _ in range(2):
        assert staging(kept, rows(2, first=3), query="?first=3").json() == {"staged": 5}
    assert "has 5 messages staged, not 9" in staging(kept, rows(1), query="?first=9").text
    committing(kept, 0, (0, 0, 5))
    assert len(in_queue(kept.broker)) == 5


def test_what_was_staged_and_committed_outlives_the_broker(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as running:
        declared(running, "q", {})
        assert staging(Pages(running), rows(3)).json() == {"staged": 3}
    with serving(tmp_path / "data") as running:
        assert committing(Pages(running), 0, (0, 0, 3)).json()["repeated"] is False
    with serving(tmp_path / "data") as running:
        assert committing(Pages(running), 0, (0, 0, 3)).json()["repeated"] is True
        assert in_queue(running) == [b"0", b"1", b"2"]


def test_properties_and_streams_are_reached_as_by_a_publisher(kept: Pages) -> None:
    declared(kept.broker, "q", {})
    declared(kept.broker, "s", STREAM)
    properties = BasicProperties(message_id="7", headers={"a": "b"}, delivery_mode=2)
    octets = block([Row("q", b"x", properties=properties), Row("s", b"y")])
    staging(kept, octets)
    committing(kept, 0, (0, 0, 2))
    channel = pika_connection(kept.broker.url).channel()
    _, found, body = channel.basic_get("q", auto_ack=True)
    assert (body, found.message_id, found.headers) == (b"x", "7", {"a": "b"})
    assert kept.facts("/api/streams/%2F/s")["safe_end_offset"] == 1


def test_a_batch_without_messages_is_no_batch(pages: Pages) -> None:
    assert committing(pages, 9).json()["published"] is True
    assert committing(pages, 9, (0, 0, 0)).json()["repeated"] is False
    assert problem(pages.get(SINK), 404)


def test_sinks_are_listed_with_what_is_staged_and_can_be_forgotten(pages: Pages) -> None:
    declared(pages.broker, "q", {})
    staging(pages, rows(3))
    staging(pages, rows(2), partition=1)
    facts = pages.facts(SINK)
    assert 0 <= int(str(facts.pop("idle_ms"))) < 60_000
    assert IDLE_MS_MAX - 60_000 < int(str(facts.pop("expires_ms"))) <= IDLE_MS_MAX
    expected = {
        "sink": "job",
        "owner": "guest",
        "batch": None,
        "is_publishing": False,
        "waits_for": None,
        "messages": 5,
        "temporary": False,
    }
    assert facts == expected
    committing(pages, 0, (0, 0, 3), (1, 0, 2))
    [facts] = pages.facts("/api/sinks/%2F")["sinks"]  # type: ignore[misc]
    del facts["idle_ms"]
    # It remembers its batch, so it does not expire.
    assert facts == {**expected, "batch": 0, "messages": 0, "expires_ms": None}
    assert pages.ask("DELETE", SINK).status_code == 204
    assert pages.facts("/api/sinks/%2F")["sinks"] == []


def test_rows_that_reach_no_queue_are_counted_or_refused(pages: Pages) -> None:
    declared(pages.broker, "q", {})
    mixed = block([Row("q", b"1"), Row("nowhere", b"2"), Row("nowhere", b"3")])
    refused = problem(staging(pages, mixed, query="?mandatory=1"), 409)
    assert refused["unroutable"] == 2
    assert "2 of 3 rows are not routed to any queue" in str(refused["reason"])
    assert staging(pages, rows(1), query="?mandatory=1").json() == {"staged": 1}
    assert staging(pages, mixed, attempt=1).json() == {"staged": 3}
    for _ in range(2):
        assert committing(pages, 0, (0, 1, 3)).json()["unroutable"] == 2


def test_a_commit_that_must_reach_queues_publishes_nothing_when_rows_do_not(pages: Pages) -> None:
    declared(pages.broker, "q", {})
    staging(pages, block([Row("q", b"1"), Row("later", b"2")]))
    refused = problem(committing(pages, 0, (0, 0, 2), mandatory=True), 409)
    assert "1 of 2 rows are not routed to any queue" in str(refused["reason"])
    assert in_queue(pages.broker) == []
    declared(pages.broker, "later", {})
    assert committing(pages, 0, (0, 0, 2), mandatory=True).json()["unroutable"] == 0
    assert (in_queue(pages.broker), in_queue(pages.broker, "later")) == ([b"1"], [b"2"])


SMALL = {"x-max-length": 3, "x-overflow": "reject-publish"}


def test_a_batch_for_which_a_queue_has_no_room_is_refused_and_stays_staged(kept: Pages) -> None:
    declared(kept.broker, "q", {})
    declared(kept.broker, "small", SMALL)
    pika_connection(kept.broker.url).channel().basic_publish("", "small", b"there")
    staging(kept, block([Row("q", b"0"), *[Row("small", b"%d" % at) for at in range(3)]]))
    refused = problem(committing(kept, 0, (0, 0, 4)), 409)
    assert "no room for the 3 messages (3 bytes)" in str(refused["reason"])
    assert "it holds 1 (5 bytes) of at most 3 messages" in str(refused["reason"])
    assert (refused["queue"], refused["rows"]) == ("small", 3)
    assert in_queue(kept.broker) == []
    assert in_queue(kept.broker, "small") == [b"there"]
    answer = committing(kept, 0, (0, 0, 4)).json()
    assert (answer["published"], answer["repeated"]) == (True, False)
    assert in_queue(kept.broker, "small") == [b"0", b"1", b"2"]


def test_a_commit_may_wait_for_room(kept: Pages) -> None:
    declared(kept.broker, "small", SMALL)
    staging(kept, rows(5, "small"))
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(committing, kept, 0, (0, 0, 5), when_full="wait")
        wait_for(lambda: kept.facts(SINK)["waits_for"] == "small")
        assert kept.facts(SINK)["messages"] == 5
        assert "being published" in str(problem(kept.ask("DELETE", SINK), 400)["reason"])
        found = in_queue(kept.broker, "small")
        assert answer.result().json()["published"] is True
    found += in_queue(kept.broker, "small")
    assert found == [b"%d" % number for number in range(5)]


def test_a_message_that_never_fits_is_not_waited_for(kept: Pages) -> None:
    limits: dict[str, object] = {"x-max-length-bytes": 3, "x-overflow": "reject-publish"}
    declared(kept.broker, "small", limits)
    staging(kept, block([Row("small", b"four")]))
    refused = problem(committing(kept, 0, (0, 0, 1), when_full="wait"), 409)
    assert "can never hold a message of 4 bytes" in str(refused["reason"])


def test_a_sink_is_its_owners_and_administrators(broker: Broker) -> None:
    declared(broker, "q", {})
    for name, tags in (("ann", ()), ("bob", ()), ("root", ("administrator",))):
        broker.add_user(name, "p", tags)
        broker.set_permissions(name, "/", ".*", ".*", ".*")
    ann, bob, root = (Pages(broker, (name, "p")) for name in ("ann", "bob", "root"))
    assert staging(ann, rows(3)).status_code == 200
    for answer in (staging(bob, rows(1)), committing(bob, 0, (0, 0, 3)), bob.ask("DELETE", SINK)):
        assert "belongs to user 'ann'" in str(problem(answer, 403)["reason"])
    assert bob.facts(SINK)["owner"] == "ann"
    assert committing(ann, 0, (0, 0, 3)).json()["published"] is True
    assert staging(root, rows(1), batch=1).status_code == 200
    assert ann.ask("DELETE", SINK).status_code == 204
    assert staging(bob, rows(1)).status_code == 200
    assert root.ask("DELETE", SINK).status_code == 204


def test_a_checksum_of_the_request_stands_for_those_of_its_rows(pages: Pages) -> None:
    declared(pages.broker, "q", {})
    octets = bytearray(rows(2))
    # The checksum of the first row.
    octets[8 + 24] ^= 1
    assert "checksum of row 0" in str(problem(staging(pages, bytes(octets)), 400)["reason"])
    checksum = zlib.crc32(octets)
    assert staging(pages, bytes(octets), query=f"?crc32={checksum}").json() == {"staged": 2}
    wrong = problem(staging(pages, bytes(octets), query=f"?crc32={checksum ^ 1}"), 400)
    assert "checksum of the request" in str(wrong["reason"])


def test_a_sink_of_one_job_says_so(pages: Pages) -> None:
    declared(pages.broker, "q", {})
    staging(pages, rows(1), query="?temporary=1")
    committing(pages, 0, (0, 0, 1))
    facts = pages.facts(SINK)
    assert facts["temporary"] is True
    assert facts["expires_ms"] is not None


def test_a_straggler_does_not_open_a_temporary_sink_again(pages: Pages) -> None:
    declared(pages.broker, "q", {})
    # Also when nothing had been staged by then.
    for _ in range(2):
        assert pages.ask("DELETE", SINK).status_code == 204
        late = problem(staging(pages, rows(1), query="?temporary=1"), 400)
        assert "has ended" in str(late["reason"])
        assert pages.get("/api/sinks/%2F").json()["sinks"] == []
    # A name that is used again and again is no temporary one.
    assert staging(pages, rows(1)).json() == {"staged": 1}


def test_so_many_ended_sinks_are_remembered() -> None:
    ended = EndedSinks(2)
    for name in ("a", "b", "c"):
        ended.add("/", name)
    ended.check("/", "a")
    ended.check("other", "c")
    for name in ("b", "c"):
        with pytest.raises(PreconditionFailed):
            ended.check("/", name)


def test_rows_need_a_topic_permission_for_their_keys(pages: Pages) -> None:
    pages.broker.apply(SetTopicPermissions("guest", "/", "amq.topic", "^a", ""))
    allowed = [Row("a", b"1", exchange="amq.topic"), Row("b", b"2", exchange="amq.direct")]
    assert staging(pages, block(allowed)).json() == {"staged": 2}
    refused = [Row("a", b"1", exchange="amq.topic"), Row("b", b"2", exchange="amq.topic")]
    reason = problem(staging(pages, block(refused)), 403)["reason"]
    assert "access to topic 'b' in exchange 'amq.topic' in vhost '/'" in str(reason)


def test_rows_need_a_topic_permission_for_the_keys_of_their_copies(pages: Pages) -> None:
    pages.broker.apply(SetTopicPermissions("guest", "/", "amq.topic", "^a", ""))
    copies = BasicProperties(headers={"CC": ["a.1", "b.1"]})
    allowed = [
        Row("a", b"1", exchange="amq.topic"),
        Row("a", b"2", exchange="amq.direct", properties=copies),
    ]
    assert staging(pages, block(allowed)).json() == {"staged": 2}
    refused = [*allowed, Row("a", b"3", exchange="amq.topic", properties=copies)]
    reason = problem(staging(pages, block(refused)), 403)["reason"]
    assert "access to topic 'b.1' in exchange 'amq.topic' in vhost '/'" in str(reason)


def test_who_may_not_write_to_an_exchange_stages_nothing(broker: Broker) -> None:
    declared(broker, "q", {})
    broker.add_user("u", "p")
    pages = Pages(broker, ("u", "p"))
    assert problem(staging(pages, rows(1)), 403)
    broker.set_permissions("u", "/", "", "^amq.default$", "")
    assert staging(pages, rows(1)).json() == {"staged": 1}
    octets = block([Row("q", b""), Row("q", b"", exchange="amq.topic")])
    assert "amq.topic" in str(problem(staging(pages, octets), 403)["reason"])
    assert problem(pages.get("/api/sinks/%2F"), 403)


@pytest.mark.parametrize(
    ("octets", "status", "text"),
    [
        (b"xy", 400, "ends within its head"),
        (rows(1)[:-1], 400, "malformed row block"),
        (rows(1)[:-1] + b"?", 400, "checksum"),
        (block([Row("q", b"", exchange="none")]), 404, "no exchange 'none'"),
        (
            block([Row("q", b"", properties=BasicProperties(user_id="else"))]),
            400,
            "user_id property",
        ),
        (block([Row("q", b"", properties=BasicProperties(expiration="x"))]), 400, "malformed"),
        (
            block([Row("q", b"", properties=BasicProperties(content_type="\udca1"))]),
            400,
            "not UTF-8",
        ),
        (b"\0" * (ROWS_BYTES_MAX + 1), 413, "bytes"),
    ],
)
def test_rows_that_cannot_be_published_are_refused(
    pages: Pages, octets: bytes, status: int, text: str
) -> None:
    declared(pages.broker, "q", {})
    assert text in str(problem(staging(pages, octets), status)["reason"])
    assert problem(pages.get(SINK), 404)


def test_an_exchange_can_be_looked_at_without_staging(pages: Pages) -> None:
    assert staging(pages, block([]), query="?exchange=amq.topic").json() == {"staged": 0}
    assert problem(staging(pages, block([]), query="?exchange=none"), 404)
    assert problem(pages.get(SINK), 404)


def test_a_header_that_lies_about_the_body_is_refused(pages: Pages) -> None:
    row = Row("q", b"four")
    row.body = b"five!"
    assert "announces a body of 4 bytes" in str(
        problem(staging(pages, block([row])), 400)["reason"]
    )


def test_blocked_publishers_are_told_to_come_again(pages: Pages) -> None:
    declared(pages.broker, "q", {})
    pages.broker.block_publishers("low on memory")
    response = staging(pages, rows(1))
    assert "low on memory" in str(problem(response, 503)["reason"])
    assert response.headers["retry-after"] == "1"
    pages.broker.unblock_publishers()
    assert staging(pages, rows(1)).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"attempts": [[1, 2]]}',
        b'{"attempts": [[0,0,1],[0,1,1]]}',
        b'{"attempts": [[0,0,1]], "when_full": "drop"}',
    ],
)
def test_a_commit_of_another_form_is_refused(pages: Pages, body: bytes) -> None:
    assert problem(pages.ask("POST", f"{SINK}/batches/0/commit", body), 400)
