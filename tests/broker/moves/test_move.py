"""Messages that are moved or copied: all of them, once, in order, or a reason why not."""

import pytest

from penstock.broker.errors import NotFound, PreconditionFailed, ResourceError, ResourceLocked
from penstock.broker.leases.leases import LeaseRequest, take_lease
from penstock.broker.move_table import (
    ENDED_KEPT,
    RUNNING_MAX,
    MoveGate,
    MoveState,
)
from penstock.broker.moves.move import STEP_BYTES, STEP_COUNT, Move, MoveRequest, begin_move
from penstock.broker.topology import BindQueue, DeclareExchange, DeclareQueue, DeleteQueue
from tests.broker.store.doubles import Broker, message


@pytest.fixture
def broker() -> Broker:
    broker = Broker()
    broker.declare("from")
    broker.declare("to")
    return broker


def bodies(broker: Broker, name: str) -> list[bytes]:
    return [entry.message.body for entry in broker.vhost.queue(name).browse(10_000)]


def numbers(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def run(broker: Broker, move: Move) -> None:
    """Until it is over, as the node's timers do."""
    for _ in range(10_000):
        broker.state.timers.fire_due(broker.now)
        broker.tick()
        if move.state is not MoveState.RUNNING:
            return
    raise AssertionError("it never ends")


def moved(broker: Broker, request: MoveRequest) -> Move:
    move = begin_move(broker.vhost, request, broker.now)
    run(broker, move)
    return move


def test_all_messages_move_in_order_and_survive(broker: Broker) -> None:
    broker.put("from", *numbers(3 * STEP_COUNT))
    broker.put("to", b"before")
    broker.tick()
    move = moved(broker, MoveRequest("from", "to"))
    assert (move.state, move.moved_count) == (MoveState.DONE, 3 * STEP_COUNT)
    restarted = broker.restarted()
    assert bodies(restarted, "from") == []
    assert bodies(restarted, "to") == [b"before", *numbers(3 * STEP_COUNT)]


def test_after_a_crash_between_any_two_ticks_each_message_is_in_one_queue(broker: Broker) -> None:
    everything = numbers(2 * STEP_COUNT + 9)
    broker.put("from", *everything)
    broker.tick()
    move = begin_move(broker.vhost, MoveRequest("from", "to"), broker.now)
    sizes = set()
    while move.state is MoveState.RUNNING:
        broker.state.timers.fire_due(broker.now)
        # Killed in the middle of the tick, and after it.
        for _ in range(2):
            restarted = broker.restarted()
            arrived = bodies(restarted, "to")
            assert arrived + bodies(restarted, "from") == everything
            sizes.add(len(arrived))
            broker.tick()
    assert sizes == {0, STEP_COUNT, 2 * STEP_COUNT, 2 * STEP_COUNT + 9}


def test_a_move_after_a_crash_goes_on_with_what_is_left(broker: Broker) -> None:
    broker.put("from", *numbers(STEP_COUNT + 5))
    begin_move(broker.vhost, MoveRequest("from", "to"), broker.now)
    broker.state.timers.fire_due(broker.now)
    broker.tick()
    restarted = broker.restarted()
    assert not restarted.vhost.move_table.moves
    moved(restarted, MoveRequest("from", "to"))
    assert bodies(restarted, "to") == numbers(STEP_COUNT + 5)


def test_a_selector_and_a_count_choose(broker: Broker) -> None:
    for number in range(6):
        sent = message(b"%d" % number, headers={"even": number % 2 == 0})
        broker.vhost.queue("from").enqueue(sent, broker.now)
    move = moved(broker, MoveRequest("from", "to", selector="even = TRUE", count=2))
    assert (move.state, move.moved_count, move.seen_count) == (MoveState.DONE, 2, 3)
    assert bodies(broker, "to") == [b"0", b"2"]
    assert bodies(broker, "from") == [b"1", b"3", b"4", b"5"]


def test_a_copy_leaves_the_source_as_it_is(broker: Broker) -> None:
    broker.put("from", *numbers(5))
    moved(broker, MoveRequest("from", "to", copy=True))
    restarted = broker.restarted()
    assert bodies(restarted, "from") == bodies(restarted, "to") == numbers(5)
    assert not any(entry.is_redelivered for entry in broker.vhost.queue("from").browse(9))


def test_what_arrives_meanwhile_is_left_alone(broker: Broker) -> None:
    broker.put("from", *numbers(3))
    move = begin_move(broker.vhost, MoveRequest("from", "to"), broker.now)
    broker.put("from", b"late")
    run(broker, move)
    assert bodies(broker, "from") == [b"late"]
    assert bodies(broker, "to") == numbers(3)


def test_priorities_move_highest_first_and_late_ones_stay(broker: Broker) -> None:
    broker.declare("urgent", arguments={"x-max-priority": 3})
    queue = broker.vhost.queue("urgent")
    for body, priority in ((b"low", 0), (b"high", 3)):
        queue.enqueue(message(body, priority=priority), broker.now)
    move = begin_move(broker.vhost, MoveRequest("urgent", "to"), broker.now)
    queue.enqueue(message(b"late", priority=3), broker.now)
    run(broker, move)
    assert bodies(broker, "to") == [b"high", b"low"]
    assert bodies(broker, "urgent") == [b"late"]


def test_an_exchange_that_routes_back_to_the_source_ends(broker: Broker) -> None:
    broker.apply(DeclareExchange("e", "fanout"))
    broker.apply(BindQueue("from", "e"))
    broker.put("from", *numbers(5))
    move = moved(broker, MoveRequest("from", exchange="e"))
    assert (move.state, move.moved_count) == (MoveState.DONE, 5)
    assert bodies(broker, "from") == numbers(5)


def test_an_exchange_gets_the_key_that_was_asked_for_or_the_own_one(broker: Broker) -> None:
    broker.apply(DeclareExchange("e", "direct", durable=True))
    broker.apply(BindQueue("to", "e", "new"))
    broker.put("from", b"1")
    moved(broker, MoveRequest("from", exchange="e", routing_key="new"))
    assert broker.vhost.queue("to").browse(1)[0].message.address.routing_key == "new"
    own = broker.vhost.queue("to").browse(1)[0].message.address.routing_key
    broker.apply(BindQueue("from", "e", own))
    moved(broker, MoveRequest("to", exchange="e"))
    assert bodies(broker, "from") == [b"1"]


def test_a_queue_as_destination_keeps_exchange_and_key(broker: Broker) -> None:
    broker.put("from", b"1")
    before = broker.vhost.queue("from").browse(1)[0].message
    moved(broker, MoveRequest("from", "to"))
    after = broker.vhost.queue("to").browse(1)[0].message
    assert (after.address, after.properties) == (before.address, before.properties)


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish", "reject-publish-dlx"])
def test_a_full_destination_stops_the_move_and_loses_nothing(broker: Broker, overflow: str) -> None:
    broker.declare("dead")
    arguments: dict[str, object] = {
        "x-max-length": 3,
        "x-overflow": overflow,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
    }
    broker.declare("small", arguments=arguments)
    broker.put("from", *numbers(5))
    move = moved(broker, MoveRequest("from", "small"))
    assert (move.state, move.moved_count) == (MoveState.STOPPED, 3)
    assert "queue 'small' in vhost '/' is full" in move.reason
    assert bodies(broker, "small") == numbers(3)
    assert bodies(broker, "from") == numbers(2, 3)
    assert bodies(broker, "dead") == []


def test_what_would_reach_no_queue_stays(broker: Broker) -> None:
    broker.apply(DeclareExchange("e", "direct"))
    broker.put("from", b"1")
    move = moved(broker, MoveRequest("from", exchange="e", routing_key="nowhere"))
    assert move.state is MoveState.STOPPED
    assert "would reach no queue" in move.reason
    assert bodies(broker, "from") == [b"1"]


def test_what_would_not_survive_a_restart_any_more_stays(broker: Broker) -> None:
    broker.declare("fleeting", durable=False)
    broker.put("from", b"transient", persistent=False)
    broker.put("from", b"persistent")
    move = moved(broker, MoveRequest("from", "fleeting"))
    assert (move.state, move.moved_count) == (MoveState.STOPPED, 1)
    assert bodies(broker, "from") == [b"persistent"]
    assert moved(broker, MoveRequest("from", "fleeting", copy=True)).moved_count == 1


def test_a_stream_is_copied_and_not_moved(broker: Broker) -> None:
    broker.declare("log", arguments={"x-queue-type": "stream"})
    broker.tick()
    broker.put("log", *numbers(400))
    broker.rest()
    with pytest.raises(PreconditionFailed, match="copy"):
        begin_move(broker.vhost, MoveRequest("log", "to"), broker.now)
    moved(broker, MoveRequest("log", "to", copy=True))
    assert bodies(broker, "to") == numbers(400)


def test_messages_move_into_a_stream(broker: Broker) -> None:
    broker.declare("log", arguments={"x-queue-type": "stream"})
    broker.tick()
    broker.put("from", *numbers(300))
    move = moved(broker, MoveRequest("from", "log"))
    broker.rest()
    assert (move.state, move.moved_count) == (MoveState.DONE, 300)
    restarted = broker.restarted()
    assert bodies(restarted, "log") == numbers(300)
    assert bodies(restarted, "from") == []


def test_expired_messages_are_not_revived(broker: Broker) -> None:
    broker.declare("mortal")
    queue = broker.vhost.queue("mortal")
    queue.enqueue(message(b"alive"), broker.now)
    queue.enqueue(message(b"dead", expiration="10"), broker.now)
    broker.now += 1_000
    moved(broker, MoveRequest("mortal", "to"))
    assert bodies(broker, "to") == [b"alive"]


def test_a_move_is_cancelled_between_steps(broker: Broker) -> None:
    broker.put("from", *numbers(STEP_COUNT + 1))
    move = begin_move(broker.vhost, MoveRequest("from", "to"), broker.now)
    broker.state.timers.fire_due(broker.now)
    broker.tick()
    move.cancel()
    run(broker, move)
    assert (move.state, move.moved_count) == (MoveState.CANCELLED, STEP_COUNT)
    assert len(bodies(broker, "from")) == 1


def test_a_step_reads_no_more_than_so_many_bytes(broker: Broker) -> None:
    broker.put("from", *[b"x" * (STEP_BYTES // 2)] * 5)
    request = MoveRequest("from", "to", selector="a = 1")
    move = begin_move(broker.vhost, request, broker.now)
    broker.state.timers.fire_due(broker.now)
    assert move.seen_count == 2


@pytest.mark.parametrize("gone", ["from", "to"])
def test_a_queue_that_is_deleted_ends_the_move(broker: Broker, gone: str) -> None:
    broker.put("from", *numbers(STEP_COUNT + 1))
    move = begin_move(broker.vhost, MoveRequest("from", "to"), broker.now)
    broker.state.timers.fire_due(broker.now)
    broker.apply(DeleteQueue(gone))
    run(broker, move)
    assert move.state is MoveState.STOPPED
    assert gone in move.reason


def test_what_cannot_be_moved_is_refused(broker: Broker) -> None:
    vhost = broker.vhost
    take_lease(vhost, LeaseRequest("from", "ann", 1), broker.now)
    lease = next(name for name in vhost.queues if name.startswith("amq.lease"))
    broker.apply(DeclareQueue("mine", exclusive=True, connection=7))
    for request, refusal in (
        (MoveRequest("none", "to"), NotFound),
        (MoveRequest("from", "none"), NotFound),
        (MoveRequest("from", exchange="none"), NotFound),
        (MoveRequest("from", "from"), PreconditionFailed),
        (MoveRequest("from", "to", exchange=""), PreconditionFailed),
        (MoveRequest("from", "to", routing_key="k"), PreconditionFailed),
        (MoveRequest("from", "to", selector="a ="), PreconditionFailed),
        (MoveRequest(lease, "to"), PreconditionFailed),
        (MoveRequest("from", lease), PreconditionFailed),
        (MoveRequest("mine", "to"), ResourceLocked),
    ):
        with pytest.raises(refusal):
            begin_move(vhost, request, broker.now)
    assert not vhost.move_table.moves


def test_so_many_moves_go_on_at_once_and_so_many_are_remembered(broker: Broker) -> None:
    for _ in range(RUNNING_MAX):
        begin_move(broker.vhost, MoveRequest("from", "to"), broker.now)
    with pytest.raises(ResourceError, match="already in progress"):
        begin_move(broker.vhost, MoveRequest("from", "to"), broker.now)
    for _ in range(ENDED_KEPT + 50):
        for move in broker.vhost.move_table.of_queue("from"):
            move.end(MoveState.DONE, "")
        begin_move(broker.vhost, MoveRequest("from", "to"), broker.now)
    assert len(broker.vhost.move_table.moves) <= RUNNING_MAX + ENDED_KEPT


class Barrier(MoveGate):
    def __init__(self) -> None:
        self.closed = True
        self.end = 0
        self.safe = 0

    def is_closed(self) -> bool:
        return self.closed

    def written(self) -> int:
        return self.end

    def durable(self) -> int:
        return self.safe


def test_a_move_waits_while_publishers_are_blocked_and_for_the_disk(broker: Broker) -> None:
    barrier = Barrier()
    broker.state.shared.move_gate = barrier
    broker.put("from", *numbers(STEP_COUNT + 1))
    move = begin_move(broker.vhost, MoveRequest("from", "to"), broker.now)

    def wait() -> int:
        for _ in range(100):
            broker.state.timers.fire_due(broker.now)
            broker.tick()
        return move.moved_count

    assert wait() == 0
    barrier.closed = False
    barrier.end = 1
    broker.state.timers.fire_due(broker.now)
    # The first step does not wait for what others wrote.
    assert wait() == STEP_COUNT
    barrier.safe = 1
    assert wait() == STEP_COUNT + 1
