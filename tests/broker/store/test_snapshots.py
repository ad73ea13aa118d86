"""Definitions are repeated before their segment goes, and no more often than that."""

from tests.broker.store.doubles import SMALL, Broker


def broker_with_definitions_larger_than_a_segment() -> Broker:
    broker = Broker()
    for number in range(40):
        broker.declare(f"queue-{number}")
        broker.tick()
    return broker


def test_definitions_larger_than_a_segment_come_to_rest() -> None:
    broker = broker_with_definitions_larger_than_a_segment()
    broker.rest()
    assert len(broker.journal.segments()) <= 2
    written = broker.journal.position
    broker.rest()
    assert broker.journal.position == written, "nothing is repeated while nothing changes"


def test_after_a_restart_they_come_to_rest_and_are_all_there() -> None:
    broker = broker_with_definitions_larger_than_a_segment()
    broker.rest()
    again = broker.restarted()
    again.rest()
    assert set(again.vhost.queues) == {f"queue-{number}" for number in range(40)}
    assert len(again.journal.segments()) <= 2


def test_one_snapshot_lets_all_segments_before_it_go() -> None:
    broker = broker_with_definitions_larger_than_a_segment()
    broker.rest()
    position = broker.journal.position
    broker.put("queue-1", b"x" * SMALL.segment_bytes_max)
    broker.tick()
    broker.take("queue-1")
    broker.rest()
    snapshot = 40 * 250
    assert broker.journal.position - position < 2 * snapshot + 2 * SMALL.segment_bytes_max
