"""The batch of a tick: what changed comes first and is, in a cluster, one operation."""

from penstock.broker.publishing.prepared_run import PreparedRun
from penstock.broker.store import records
from penstock.broker.store.definition_records import encode_snapshot, snapshot_of
from penstock.broker.topology import DeleteQueue
from tests.broker.store.doubles import ROOMY, SMALL, Broker, audit, message
from tests.broker.store.operation_doubles import KeptOperations, promoted, root_of
from tests.broker.store.test_message_store import batches


def kinds(payload: bytes) -> list[int]:
    found: list[int] = []
    at = 0
    while at < len(payload):
        found.append(payload[at])
        at += records.size_at(payload, at)
    return found


def take_snapshot(broker: Broker) -> None:
    text = encode_snapshot(snapshot_of(broker.state, []), broker.store.next_queue_number)
    broker.store.add_snapshot(text)


def covered(batch: bytes) -> bytes:
    """The operation at the beginning of a batch, by what its record says."""
    operation = records.OperationRecord(batch, 0)
    return batch[: records.OPERATION_SIZE + operation.octets]


def test_what_a_tick_changed_comes_before_its_housekeeping() -> None:
    broker = Broker(limits=ROOMY)
    broker.declare("q")
    broker.put("q", b"a", b"b")
    broker.tick()
    broker.take("q")
    broker.put("q", b"c")
    broker.declare("r")
    take_snapshot(broker)
    broker.tick()
    assert kinds(batches(broker)[-1]) == [
        records.DEFINITION,
        records.MESSAGE,
        records.DEQUEUED,
        records.SNAPSHOT,
    ]
    audit(broker)
    again = broker.restarted()
    assert set(again.vhost.queues) == {"q", "r"}
    assert again.drain("q") == [b"b", b"c"]


def test_a_queue_that_is_deleted_in_the_tick_of_a_snapshot_does_not_return() -> None:
    broker = Broker(limits=ROOMY)
    broker.declare("q")
    broker.put("q", b"a")
    broker.tick()
    broker.apply(DeleteQueue("q"))
    broker.declare("q")
    broker.put("q", b"new")
    take_snapshot(broker)
    broker.tick()
    again = broker.restarted()
    assert again.drain("q") == [b"new"]
    assert again.store.next_queue_number == broker.store.next_queue_number


def test_an_operation_is_the_part_of_the_batch_that_its_record_covers() -> None:
    broker, kept = root_of(3, ROOMY)
    broker.declare("q")
    broker.put("q", b"a", b"b")
    broker.tick()
    take_snapshot(broker)
    broker.take("q")
    broker.tick()
    written = [batch for batch in batches(broker) if batch[0] == records.OPERATION]
    assert [records.OperationRecord(batch, 0).k for batch in written] == [1, 2, 3]
    assert {records.OperationRecord(batch, 0).epoch for batch in written} == {3}
    assert [covered(batch) for batch in written] == kept.operations
    assert kinds(kept.operations[-1]) == [records.OPERATION, records.DEQUEUED]
    assert kinds(written[-1]) == [records.OPERATION, records.DEQUEUED, records.SNAPSHOT]
    assert kept.positions[-1] == broker.journal.position
    assert not kept.housekeeping
    assert broker.store.syn == (3, 3)
    audit(broker)
    assert broker.restarted().store.syn == (3, 3)


def test_an_operation_that_was_prepared_is_told_without_its_housekeeping() -> None:
    broker, kept = root_of(1, ROOMY)
    queue = broker.declare("q")
    broker.put("q", b"first")
    broker.tick()
    run = PreparedRun(queue)
    run.add([message(b"x" * 1000) for _ in range(50)])
    run.enqueue(broker.now)
    broker.take("q")
    take_snapshot(broker)
    broker.tick()
    batch = batches(broker)[-1]
    assert kinds(batch)[-2:] == [records.DEQUEUED, records.SNAPSHOT]
    assert covered(batch) == kept.operations[-1]
    assert kinds(kept.operations[-1])[:2] == [records.OPERATION, records.MESSAGE]
    assert len(kinds(kept.operations[-1])) == 52
    audit(broker)
    assert len(promoted(broker.restarted(), 2).drain("q")) == 50


def test_a_prepared_operation_without_anything_behind_it_is_told_whole() -> None:
    broker, kept = root_of(1, ROOMY)
    queue = broker.declare("q")
    broker.tick()
    run = PreparedRun(queue)
    run.add([message(b"x") for _ in range(3)])
    run.enqueue(broker.now)
    take_snapshot(broker)
    broker.tick()
    batch = batches(broker)[-1]
    assert kinds(batch)[-1] == records.SNAPSHOT
    assert covered(batch) == kept.operations[-1]


def test_a_tick_with_housekeeping_only_is_no_operation() -> None:
    broker, kept = root_of(1, ROOMY)
    count = len(kept.operations)
    take_snapshot(broker)
    broker.tick()
    assert kinds(batches(broker)[-1]) == [records.SNAPSHOT]
    broker.store.append_tick()
    assert kinds(batches(broker)[-1]) == [records.TICK]
    assert len(kept.operations) == count
    assert kept.housekeeping[-1] == broker.journal.position
    assert len(kept.housekeeping) == 2
    assert broker.store.syn == (1, kept.k)


def test_what_came_and_went_within_a_tick_is_no_operation() -> None:
    broker, kept = root_of(1, ROOMY)
    broker.declare("q")
    broker.tick()
    count = kept.k
    broker.put("q", b"m")
    broker.take("q")
    broker.tick()
    assert (kept.k, kept.housekeeping) == (count, [])


def test_operations_and_moved_records_share_batches() -> None:
    """Traffic that keeps the reclaimer copying, while messages leave at the same time."""
    broker, kept = root_of(1)
    broker.declare("kept")
    broker.declare("q")
    broker.declare("r")
    for number in range(120):
        broker.put_everywhere(["q", "r"], b"%03d" % number + b"x" * 60)
        if number % 10 == 0:
            broker.put("kept", b"%03d" % number)
        if number > 5:
            broker.take("q")
        if number > 8:
            broker.take("r")
        broker.tick()
        audit(broker)
    mixed = 0
    for batch in batches(broker):
        if batch[0] == records.OPERATION:
            assert covered(batch) in kept.operations
            behind = kinds(batch[len(covered(batch)) :])
            mixed += records.MESSAGE in behind
    assert mixed, "some operation was followed by moved records"
    again = promoted(broker.restarted(), 2)
    assert again.drain("kept") == [b"%03d" % number for number in range(0, 120, 10)]
    assert (len(again.drain("q")), len(again.drain("r"))) == (6, 9)


def test_the_position_in_the_stream_outlives_the_segment_that_held_it() -> None:
    broker, kept = root_of(7)
    broker.declare("q")
    broker.put("q", b"x" * SMALL.segment_bytes_max)
    broker.tick()
    broker.take("q")
    broker.tick()
    told = broker.store.syn
    # From here on nothing but housekeeping is written.
    broker.store.operations = None
    take_snapshot(broker)
    broker.put("q", b"y" * SMALL.segment_bytes_max)
    broker.tick()
    broker.take("q")
    broker.rest()
    assert not any([batch[0] == records.OPERATION for batch in batches(broker)])
    again = broker.restarted()
    assert again.store.syn == told == (7, kept.k)
    assert again.store.syn_segment == broker.store.syn_segment


def test_a_server_without_a_cluster_writes_nothing_of_the_stream() -> None:
    broker = Broker()
    broker.declare("q")
    for _ in range(20):
        broker.put("q", b"x" * SMALL.segment_bytes_max)
        broker.tick()
        broker.take("q")
        broker.tick()
    broker.rest()
    found = {kind for batch in batches(broker) for kind in kinds(batch)}
    assert found <= {records.MESSAGE, records.DEQUEUED, records.DEFINITION, records.SNAPSHOT}
    assert broker.store.syn == (0, 0)


def test_the_octets_of_what_left_are_written_with_it() -> None:
    broker, _ = root_of(1)
    queue = broker.declare("q")
    broker.tick()
    for size in range(1, 21):
        broker.put("q", b"x" * size)
        broker.tick()
    assert queue.journal_list().in_memory_count() < 20, "some are paged out"
    broker.take("q", 3)
    broker.tick()
    left = broker.get("q")
    broker.vhost.queue("q").purge(broker.now)
    broker.tick()
    broker.acknowledge(left)
    broker.tick()
    found: list[int] = []
    for batch in batches(broker):
        at = 0
        while at < len(batch):
            if batch[at] == records.DEQUEUED:
                found.append(records.DequeuedRecord(batch, at).body_bytes)
            at += records.size_at(batch, at)
    assert found == [1 + 2 + 3, sum(range(5, 21)), 4]


def test_the_octets_of_prepared_messages_that_went_at_once_are_written_too() -> None:
    broker, kept = root_of(1, ROOMY)
    queue = broker.declare("q")
    broker.tick()
    run = PreparedRun(queue)
    run.add([message(b"x" * 10), message(b"y" * 5)])
    run.enqueue(broker.now)
    broker.take("q")
    broker.tick()
    operation = kept.operations[-1]
    at = 0
    while operation[at] != records.DEQUEUED:
        at += records.size_at(operation, at)
    gone = records.DequeuedRecord(operation, at)
    assert (gone.body_bytes, [count for _, count in gone.ranges]) == (10, [1])


def test_a_stream_of_operations_that_begins_later_gets_what_comes_from_then_on() -> None:
    broker = Broker(limits=ROOMY)
    broker.declare("q")
    broker.tick()
    kept = KeptOperations(2)
    broker.store.operations = kept
    broker.put("q", b"m")
    broker.tick()
    assert kinds(kept.operations[0]) == [records.OPERATION, records.MESSAGE]
