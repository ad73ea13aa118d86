"""Rows that a queue refuses, or holds and decides on later."""

from __future__ import annotations

import pytest

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Address, Message
from penstock.broker.observers import QueueObserver
from penstock.broker.publishing.target import Target, resolve_target
from penstock.broker.sinks.message_rows import rows_of
from penstock.broker.sinks.publish_batch import ROOM_POLL_MS
from penstock.broker.sinks.sinks import commit, stage
from penstock.broker.sinks.stages import StageKey
from penstock.broker.sinks.unfinished_row import UnfinishedRow
from penstock.broker.topology import DeclareQueue, DeleteQueue
from tests.broker.store.doubles import Broker, message

SINK = "job"


class Undecided(QueueObserver):
    """Holds the first message of a queue, as a queue does that asks other servers."""

    def __init__(self) -> None:
        self.held: list[Message] = []

    def enqueued(self, entry: QueueEntry) -> None:
        if not self.held:
            entry.message.hold()
            self.held.append(entry.message)


@pytest.fixture
def broker() -> Broker:
    broker = Broker()
    broker.declare("q")
    return broker


def commit_rows(broker: Broker, *bodies: bytes) -> None:
    rows = rows_of([message(body) for body in bodies])
    stage(broker.vhost, StageKey(SINK, 0, 0, 0), rows, broker.now)
    commit(broker.vhost, SINK, 0, [(0, 0, len(bodies))], broker.now)


def go_on(broker: Broker) -> None:
    for _ in range(10):
        broker.state.timers.fire_due(broker.now)
        broker.tick(ROOM_POLL_MS)


def bodies(broker: Broker) -> list[bytes]:
    return [entry.message.body for entry in broker.vhost.queue("q").browse(100)]


def test_a_batch_is_not_published_while_a_queue_holds_one_of_its_rows(broker: Broker) -> None:
    undecided = Undecided()
    broker.vhost.queue("q").observers.append(undecided)
    commit_rows(broker, b"1", b"2")
    go_on(broker)
    sink = broker.vhost.sinks[SINK]
    assert (sink.is_publishing, sink.waits_for, bodies(broker)) == (True, "q", [b"1"])
    undecided.held[0].release()
    go_on(broker)
    assert (sink.is_publishing, sink.waits_for, bodies(broker)) == (False, "", [b"1", b"2"])


def test_a_row_that_is_given_up_is_published_again(broker: Broker) -> None:
    undecided = Undecided()
    queue = broker.vhost.queue("q")
    queue.observers.append(undecided)
    commit_rows(broker, b"1", b"2")
    go_on(broker)
    # The queue that gave it up does not have it.
    assert broker.drain("q") == [b"1"]
    undecided.held[0].refuse()
    undecided.held[0].release()
    go_on(broker)
    sink = broker.vhost.sinks[SINK]
    assert (sink.is_publishing, bodies(broker)) == (False, [b"1", b"2"])
    assert undecided.held[0].publisher is None


def full_target(broker: Broker) -> Target:
    arguments: dict[str, object] = {"x-max-length": 1, "x-overflow": "reject-publish"}
    broker.apply(DeclareQueue("full", durable=True, arguments=arguments))
    broker.put("full", b"first")
    routing = broker.vhost.routing
    return resolve_target(routing, routing.exchanges[""], Address("", "full", b""))


def test_a_row_is_published_again_to_the_queue_that_refused_it(broker: Broker) -> None:
    target = full_target(broker)
    row = UnfinishedRow(broker.vhost.routing, target, message(b"row", key="full"), target.queues)
    assert (row.finish(1), row.waits_for()) == (False, "full")
    assert broker.drain("full") == [b"first"]
    assert row.finish(2)
    assert broker.drain("full") == [b"row"]


def test_a_row_does_not_wait_for_a_queue_that_is_deleted(broker: Broker) -> None:
    target = full_target(broker)
    row = UnfinishedRow(broker.vhost.routing, target, message(b"row", key="full"), target.queues)
    broker.apply(DeleteQueue("full"))
    assert row.finish(1)
