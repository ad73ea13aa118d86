"""GET /api/queues/{vhost}/{name}/ages."""

import pika

from penstock import Broker
from tests.server.http.asking import Pages, declared, problem, publish


def test_the_oldest_message_has_an_age_and_deliveries_are_counted(kept: Pages) -> None:
    channel = declared(kept.broker, "q", {})
    path = "/api/queues/%2F/q/ages"
    assert kept.facts(path) == {
        "oldest_message_age_ms": None,
        "head_message_timestamp": None,
        "time_in_queue": None,
    }
    publish(channel, "q", [b"1", b"2", b"3"])
    age = kept.facts(path)["oldest_message_age_ms"]
    assert isinstance(age, int) and 0 <= age < 600_000
    for _ in range(3):
        channel.basic_get("q", auto_ack=True)
    facts = kept.facts(path)
    waited = facts["time_in_queue"]
    assert facts["oldest_message_age_ms"] is None
    assert isinstance(waited, dict) and waited["deliveries"] == 3
    assert sum(bucket["deliveries"] for bucket in waited["buckets"]) == 3
    assert waited["buckets"][-1]["up_to_ms"] is None


def test_the_timestamp_of_the_next_message_is_shown(broker: Broker, pages: Pages) -> None:
    kinds: list[dict[str, object]] = [{}, {"x-max-priority": 3}]
    for arguments in kinds:
        channel = declared(broker, "q", arguments)
        channel.basic_publish("", "q", b"1", pika.BasicProperties(timestamp=1_700_000_000))
        facts = pages.facts("/api/queues/%2F/q/ages")
        assert facts["head_message_timestamp"] == 1_700_000_000
        channel.queue_delete("q")


def test_an_unknown_queue_is_not_found(pages: Pages) -> None:
    problem(pages.get("/api/queues/%2F/none/ages"), 404)
