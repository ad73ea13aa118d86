"""What a tick writes: everything that belongs together in one batch, nothing twice, nothing that
is gone already.
"""

from random import Random

import pytest

from penstock.broker.publishing.prepared_run import PreparedRun
from penstock.broker.store import records
from penstock.broker.store.definition_records import Change, decode_change
from penstock.broker.topology import (
    AddVhost,
    DeclareExchange,
    DeclareQueue,
    DeleteQueue,
    DeleteVhost,
    OpenDelayLine,
    PurgeQueue,
)
from penstock.formats.replication_id import first_id
from penstock.ha.id_setter import IdSetter
from penstock.storage.memory_disk import MemoryDisk
from penstock.storage.recovery import BatchListener, recover
from tests.broker.store.doubles import ROOMY, SMALL, Broker, audit, copied, message


class Batches(BatchListener):
    def __init__(self) -> None:
        self.payloads: list[bytes] = []

    def batch(self, location: int, payload: bytes) -> None:
        self.payloads.append(payload)


def batches(broker: Broker) -> list[bytes]:
    assert isinstance(broker.disk, MemoryDisk)
    sink = Batches()
    recover(copied(broker.disk), b"", sink)
    return sink.payloads


def told(payload: bytes) -> list[tuple[object, ...]]:
    """The records of a batch in words."""
    found: list[tuple[object, ...]] = []
    at = 0
    while at < len(payload):
        size = records.size_at(payload, at)
        if payload[at] == records.MESSAGE:
            record = records.MessageRecord(payload, at)
            pairs = [
                (record.queue_number(index), record.position(index))
                for index in range(record.pair_count)
            ]
            found.append(("message", record.body(), pairs))
        elif payload[at] == records.DEQUEUED:
            gone = records.DequeuedRecord(payload, at)
            found.append(("dequeued", gone.queue_number, gone.ranges))
        else:
            found.append(("definitions",))
        at += size
    return found


def broker_with(*names: str) -> Broker:
    broker = Broker(limits=ROOMY)
    for name in names:
        broker.declare(name)
    broker.tick()
    return broker


def test_a_quiet_tick_writes_nothing() -> None:
    broker = broker_with("q")
    count = len(batches(broker))
    broker.tick()
    assert len(batches(broker)) == count


def test_one_tick_is_one_batch() -> None:
    broker = broker_with("q")
    count = len(batches(broker))
    broker.put("q", b"a", b"b")
    broker.declare("r")
    broker.tick()
    written = batches(broker)[count:]
    assert [told(batch) for batch in written] == [
        [("definitions",), ("message", b"a", [(1, 1)]), ("message", b"b", [(1, 2)])]
    ]


def test_a_message_of_many_queues_is_written_once() -> None:
    broker = broker_with("q", "r", "s")
    broker.put_everywhere("qrs", b"m")
    broker.tick()
    assert told(batches(broker)[-1]) == [("message", b"m", [(1, 1), (2, 1), (3, 1)])]


def test_it_is_written_once_even_when_other_messages_come_in_between() -> None:
    broker = broker_with("q", "r", "s")
    fanned = message(b"m")
    for name in "qrs":
        broker.vhost.queue(name).enqueue(fanned, broker.now)
        broker.put("q", b"between " + name.encode())
    broker.tick()
    written = told(batches(broker)[-1])
    assert [record for record in written if record[1] == b"m"] == [
        ("message", b"m", [(1, 1), (2, 1), (3, 1)])
    ]
    restarted = broker.restarted()
    assert restarted.drain("q") == [b"m", b"between q", b"between r", b"between s"]
    assert restarted.drain("s") == [b"m"]


def test_a_message_that_came_and_went_in_one_tick_is_not_written() -> None:
    broker = broker_with("q")
    count = len(batches(broker))
    broker.put("q", b"m")
    broker.take("q")
    broker.tick()
    assert len(batches(broker)) == count


def test_one_that_went_from_one_of_its_queues_is_written_for_the_others() -> None:
    broker = broker_with("q", "r")
    broker.put_everywhere("qr", b"m")
    broker.take("q")
    broker.tick()
    assert told(batches(broker)[-1]) == [("message", b"m", [(2, 1)])]
    audit(broker)


def test_acknowledgements_of_a_tick_are_ranges_per_queue() -> None:
    broker = broker_with("q", "r")
    broker.put("q", b"1", b"2", b"3", b"4")
    broker.put("r", b"1")
    broker.tick()
    kept = broker.get("q")
    broker.take("q", 2)
    broker.take("r")
    broker.tick()
    assert told(batches(broker)[-1]) == [("dequeued", 1, [(2, 2)]), ("dequeued", 2, [(1, 1)])]
    broker.acknowledge(kept)
    broker.tick()
    assert told(batches(broker)[-1]) == [("dequeued", 1, [(1, 1)])]


def test_a_dead_letter_leaves_and_arrives_in_one_batch() -> None:
    broker = Broker(limits=ROOMY)
    broker.declare("dead")
    dead_letter = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    queue = broker.declare("q", arguments=dict(dead_letter))
    broker.put("q", b"m")
    broker.tick()
    entry = broker.get("q")
    broker.settle(entry)
    queue.reject(entry, broker.now)
    broker.tick()
    assert told(batches(broker)[-1]) == [("message", b"m", [(1, 1)]), ("dequeued", 2, [(1, 1)])]


def test_transient_messages_and_transient_queues_are_not_written() -> None:
    broker = broker_with("q")
    broker.declare("t", durable=False)
    count = len(batches(broker))
    broker.put("q", b"transient", persistent=False)
    broker.put("t", b"persistent")
    broker.tick()
    assert broker.take("q") == [b"transient"]
    assert broker.take("t") == [b"persistent"]
    broker.tick()
    assert len(batches(broker)) == count


def test_a_message_waits_for_the_flush_only_where_it_is_written() -> None:
    broker = broker_with("q")
    broker.declare("t", durable=False)
    written, transient = message(b"m"), message(b"m", persistent=False)
    broker.vhost.queue("q").enqueue(written, 0)
    broker.vhost.queue("q").enqueue(transient, 0)
    other = message(b"m")
    broker.vhost.queue("t").enqueue(other, 0)
    assert (written.is_journalled, transient.is_journalled) == (True, False)
    assert not other.is_journalled


def test_each_queue_keeps_its_own_time_to_live() -> None:
    for names in ("short", "long"), ("long", "short"):
        broker = Broker(limits=ROOMY)
        broker.declare("short", arguments={"x-message-ttl": 1000})
        broker.declare("long")
        broker.put_everywhere(names, b"m")
        broker.tick()
        restarted = broker.restarted(milliseconds=500)
        assert restarted.vhost.queue("short").message_count == 1
        restarted = broker.restarted(milliseconds=5000)
        assert restarted.vhost.queue("short").message_count == 0
        assert restarted.vhost.queue("long").message_count == 1
        assert restarted.drain("long") == [b"m"]


def fill_paged(broker: Broker, name: str, count: int, persistent: bool = True) -> list[bytes]:
    bodies = [b"%05d" % number for number in range(count)]
    for at in range(0, count, 7):
        broker.put(name, *bodies[at : at + 7], persistent=persistent)
        broker.tick()
    return bodies


@pytest.mark.parametrize("ends", [PurgeQueue("q"), DeleteQueue("q")], ids=["purged", "deleted"])
@pytest.mark.parametrize("persistent", [True, False])
def test_a_paged_queue_that_is_emptied_gives_its_disk_back(
    persistent: bool, ends: PurgeQueue | DeleteQueue
) -> None:
    broker = Broker(limits=SMALL)
    broker.declare("q")
    fill_paged(broker, "q", 200, persistent)
    assert isinstance(broker.disk, MemoryDisk)
    assert len(broker.disk.files) > 5
    broker.apply(ends)
    broker.rest()
    audit(broker)
    assert len(broker.disk.files) <= 3
    restarted = broker.restarted()
    if isinstance(ends, PurgeQueue):
        assert restarted.vhost.queue("q").message_count == 0
    else:
        assert "q" not in restarted.vhost.queues


def test_what_is_out_with_consumers_survives_a_purge() -> None:
    broker = Broker(limits=SMALL)
    broker.declare("q")
    fill_paged(broker, "q", 30)
    kept = broker.get("q")
    broker.apply(PurgeQueue("q"))
    broker.rest()
    audit(broker)
    assert broker.restarted().drain("q") == [b"00000"]
    broker.acknowledge(kept)
    broker.tick()
    assert broker.restarted().drain("q") == []


def test_a_queue_declared_anew_has_none_of_the_old_messages() -> None:
    broker = broker_with("q")
    broker.put("q", b"old")
    broker.tick()
    broker.apply(DeleteQueue("q"))
    broker.declare("q")
    broker.put("q", b"new")
    broker.tick()
    assert broker.restarted().drain("q") == [b"new"]


def test_the_spool_is_empty_after_a_restart_and_durable_messages_are_not() -> None:
    broker = Broker(limits=SMALL)
    broker.declare("q")
    for number in range(40):
        broker.put("q", b"t%d" % number, persistent=False)
        broker.put("q", b"p%d" % number)
        broker.tick()
    restarted = broker.restarted()
    assert restarted.drain("q") == [b"p%d" % number for number in range(40)]
    assert not [name for name in restarted.disk.names() if name.startswith("spool/")]


def test_a_mixed_paged_queue_gives_everything_in_order_with_headers_and_times() -> None:
    broker = Broker(limits=SMALL)
    queue = broker.declare("q")
    for number in range(60):
        sent = message(
            b"%d" % number,
            persistent=number % 3 == 0,
            key="caf\udce9",
            headers={"n": number},
            expiration="60000" if number % 4 == 0 else None,
            origin=number,
        )
        queue.enqueue(sent, broker.now)
        broker.tick()
    assert queue.journal_list().count == 60
    for number in range(60):
        entry = broker.get("q")
        assert entry.message.body == b"%d" % number
        assert entry.message.properties.headers() == {"n": number}
        assert entry.message.address.routing_key == "caf\udce9"
        assert entry.message.origin == number
        assert bool(entry.expires_at) == (number % 4 == 0)
        assert not entry.is_redelivered
        broker.acknowledge(entry)
    broker.rest()
    audit(broker)


def test_definitions_are_counted_for_who_waits_for_them() -> None:
    broker = Broker(limits=ROOMY)
    before = broker.state.definitions.change_count
    broker.declare("t", durable=False)
    assert broker.state.definitions.change_count == before
    broker.apply(DeclareExchange("e", "fanout", durable=True))
    broker.apply(DeclareExchange("e", "fanout", durable=True))
    assert broker.state.definitions.change_count == before + 1


@pytest.mark.parametrize("seed", range(4))
def test_what_was_purged_from_a_priority_queue_that_pages_stays_away(seed: int) -> None:
    """Its levels page separately, so positions of one level do not follow one another."""
    broker = Broker()
    queue = broker.declare("q", arguments={"x-max-priority": 3})
    dice = Random(seed)
    for number in range(dice.randint(1, 60)):
        queue.enqueue(message(b"%d" % number, priority=dice.randrange(4)), broker.now)
        if dice.random() < 0.2:
            broker.tick()
    broker.tick()
    queue.purge(broker.now)
    broker.tick()
    audit(broker)
    assert broker.restarted().vhost.queue("q").message_count == 0


def test_without_a_cluster_numbers_and_positions_count_from_one() -> None:
    broker = broker_with("q", "r")
    broker.put("r", b"m")
    assert [broker.vhost.queue(name).number for name in "qr"] == [1, 2]
    assert broker.get("r").position == 1


def test_a_new_root_numbers_by_its_epoch() -> None:
    broker = broker_with("old")
    broker.put("old", b"before")
    waiting = broker.vhost.delay_line.put(message(b"waits"), 10_000, False)
    broker.tick()
    IdSetter(broker.store).begin(5)
    broker.declare("new")
    broker.put("old", b"after")
    broker.put("new", b"first", b"second")
    numbers = [broker.vhost.queue(name).number for name in ("old", "new")]
    assert numbers == [1, first_id(5)]
    assert [broker.get("old").position for _ in range(2)] == [1, first_id(5)]
    assert [broker.get("new").position for _ in range(2)] == [first_id(5), first_id(5) + 1]
    later = broker.vhost.delay_line.put(message(b"waits too"), 10_000, False)
    assert (waiting.position, later.position) == (1, first_id(5))


def test_numbers_of_an_epoch_go_on_after_a_restart_and_never_return() -> None:
    broker = broker_with("q")
    IdSetter(broker.store).begin(2)
    broker.declare("r")
    broker.put("q", b"1")
    broker.tick()
    again = broker.restarted()
    IdSetter(again.store).begin(3)
    assert again.store.next_queue_number == first_id(3)
    again.put("q", b"2")
    again.tick()
    assert [again.get("q").position for _ in range(2)] == [first_id(2), first_id(3)]
    # Also where nothing in the journal remembers the queue's positions.
    last = again.restarted()
    assert last.vhost.queue("r").number == first_id(2)
    IdSetter(last.store).begin(4)
    last.put("r", b"3")
    assert last.get("r").position == first_id(4)


def test_positions_that_were_guessed_before_an_epoch_are_corrected() -> None:
    broker = broker_with("q")
    run = PreparedRun(broker.vhost.queue("q"))
    run.add([message(b"a"), message(b"b")])
    IdSetter(broker.store).begin(6)
    run.enqueue(broker.now)
    broker.tick()
    assert told(batches(broker)[-1]) == [
        ("message", b"a", [(1, first_id(6))]),
        ("message", b"b", [(1, first_id(6) + 1)]),
    ]
    assert broker.restarted().drain("q") == [b"a", b"b"]


def changes_in(payload: bytes) -> list[Change]:
    found: list[Change] = []
    at = 0
    while at < len(payload):
        size = records.size_at(payload, at)
        if payload[at] == records.DEFINITION:
            found.append(decode_change(payload[at + records.HEAD_SIZE : at + size]))
        at += size
    return found


def test_a_deletion_tells_the_numbers_that_are_gone() -> None:
    broker = broker_with("q", "r")
    broker.apply(DeleteQueue("r"))
    broker.tick()
    (change,) = changes_in(batches(broker)[-1])
    assert (change.command, change.gone_numbers) == (DeleteQueue("r"), [2])
    assert change.queue_number == 0
    assert b"gone_numbers" not in b"".join(batches(broker)[:-1])


def test_a_deleted_virtual_host_tells_all_its_numbers() -> None:
    broker = broker_with("q")
    broker.state.apply(AddVhost("other"), broker.now)
    other = broker.state.vhost("other")
    for name in ("a", "b"):
        other.apply(DeclareQueue(name, durable=True), broker.now)
    broker.state.definitions.vhost_changed("other", OpenDelayLine())
    broker.tick()
    numbers = {queue.number for queue in other.queues.values()} | {other.delay_line.number}
    broker.state.apply(DeleteVhost("other"), broker.now)
    broker.tick()
    changes = changes_in(batches(broker)[-1])
    gone = [number for change in changes for number in change.gone_numbers]
    assert len(numbers) == 3
    assert sorted(gone) == sorted(numbers)
    assert "other" not in broker.restarted().state.vhosts
