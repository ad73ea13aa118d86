"""A replica of one queue on another server: it has what the source has, whatever is restarted."""

import pytest

from penstock.broker.definitions.exporting import export
from penstock.broker.errors import AccessRefused, PreconditionFailed
from penstock.broker.topology import DeclareQueue, DeleteQueue, PurgeQueue
from penstock.ha.standalone.queue_replica import ReplicaState
from tests.broker.definitions.definition_examples import apply as apply_definitions
from tests.broker.store.doubles import message
from tests.ha.standalone.replica_world import KnownOut, ReplicaWorld

URI = "amqp://guest:guest@source/"


def following(*bodies: bytes) -> ReplicaWorld:
    world = ReplicaWorld()
    world.source.apply(DeclareQueue("q", durable=True))
    world.source.put(*bodies)
    world.target.replicate(URI)
    world.settle()
    return world


def test_what_was_queued_before_is_there_and_what_comes_later_too() -> None:
    world = following(b"one", b"two")
    assert world.target.bodies() == [b"one", b"two"]
    world.source.put(b"three")
    world.settle()
    assert world.target.bodies() == [b"one", b"two", b"three"]
    world.run(1)
    assert world.target.replica().state is ReplicaState.FOLLOWING
    assert world.source.bodies() == [b"one", b"two", b"three"]


def test_what_leaves_the_source_leaves_the_replica() -> None:
    world = following(b"one", b"two", b"three")
    entry = world.source.get()
    world.run(1)
    # It belongs to the queue until it is acknowledged.
    assert len(world.target.bodies()) == 3
    world.source.acknowledge(entry)
    world.settle()
    assert world.target.bodies() == [b"two", b"three"]


def test_what_consumers_have_when_the_replica_comes_is_in_it() -> None:
    world = ReplicaWorld()
    world.source.apply(DeclareQueue("q", durable=True))
    world.source.put(b"one", b"two", b"three")
    entry = world.source.get()
    world.source.node.container.unsettled = KnownOut(world.source.queue(), entry)
    world.target.replicate(URI)
    world.run(5)
    assert world.target.bodies() == [b"one", b"two", b"three"]
    world.source.queue().requeue([entry], world.source.now())
    world.source.put(b"four")
    world.settle()
    assert world.target.bodies() == [b"one", b"two", b"three", b"four"]


def test_a_replica_refuses_publishes_consumers_and_purges_until_it_is_released() -> None:
    world = following(b"one", b"two")
    queue = world.target.queue()
    now = world.target.now()
    assert not queue.enqueue(message(b"mine"), now)
    with pytest.raises(AccessRefused, match=r"is a replica of queue 'q' at amqp://source/; it is"):
        queue.get(now)
    with pytest.raises(AccessRefused):
        world.target.apply(PurgeQueue("q"))
    world.target.release()
    assert queue.enqueue(message(b"mine"), now)
    world.source.put(b"three")
    world.run(2)
    assert world.target.bodies() == [b"one", b"two", b"mine"]
    first = world.target.get()
    assert (first.message.body, first.is_redelivered) == (b"one", True)
    assert world.source.bodies() == [b"one", b"two", b"three"]


def test_a_released_queue_stays_released_over_a_restart() -> None:
    world = following(b"one")
    world.target.release()
    world.run(1)
    world.target.kill()
    world.run(3)
    assert world.target.queue().following is None
    assert world.target.queue().enqueue(message(b"mine"), world.target.now())


@pytest.mark.parametrize("victim", ["source", "target"])
@pytest.mark.parametrize("loses_power", [False, True])
def test_after_a_restart_only_what_is_missing_is_fetched(victim: str, loses_power: bool) -> None:
    world = following(*[b"%d" % number for number in range(50)])
    world.run(2)
    host = world.hosts[victim]
    if loses_power:
        host.lose_power()
    else:
        host.kill()
    world.run(4)
    before = world.target.replica().fetched_count
    world.source.acknowledge(world.source.get())
    world.source.put(b"new")
    world.settle(60)
    assert world.target.bodies() == [*[b"%d" % number for number in range(1, 50)], b"new"]
    # A new process counts from zero.
    assert world.target.replica().fetched_count - before == 1


def test_messages_that_are_not_persistent_go_with_the_source_and_are_fetched_again_here() -> None:
    world = following(b"kept")
    world.source.put(b"lost", persistent=False)
    world.settle()
    world.target.kill()
    world.settle(60)
    assert world.target.bodies() == [b"kept", b"lost"]
    world.source.kill()
    world.run(5)
    world.source.put(b"later")
    world.settle(60)
    assert world.target.bodies() == [b"kept", b"later"]


def test_positions_that_a_source_has_lost_are_not_given_again() -> None:
    world = following(b"one", b"two")
    for _ in range(2):
        world.source.acknowledge(world.source.get())
    world.settle()
    highest = world.source.queue().end_position()
    world.source.kill()
    world.run(4)
    assert world.source.queue().end_position() > highest
    world.source.put(b"three")
    world.settle(60)
    assert world.target.bodies() == [b"three"]


def test_priorities_and_times_to_live_apply_after_the_release() -> None:
    world = ReplicaWorld()
    ranked: dict[str, object] = {"x-max-priority": 5}
    world.source.apply(DeclareQueue("q", durable=True, arguments=ranked))
    world.target.replicate(URI, arguments=ranked)
    now = world.source.now()
    world.source.queue().enqueue(message(b"low", priority=1), now)
    world.source.queue().enqueue(message(b"high", priority=4), now)
    world.source.queue().enqueue(message(b"short", priority=5, expiration="20000"), now)
    world.source.schedule_flush()
    world.settle()
    assert world.target.bodies() == [b"short", b"high", b"low"]
    world.source.kill()
    world.source.later(0, world.source.kill)
    world.run(25)
    world.target.release()
    world.run(1)
    assert world.target.bodies() == [b"high", b"low"]


def test_a_full_queue_is_limited_by_its_source_alone() -> None:
    world = ReplicaWorld()
    short: dict[str, object] = {"x-max-length": 2}
    world.source.apply(DeclareQueue("q", durable=True))
    world.source.put(b"one", b"two", b"three")
    world.target.replicate(URI, arguments=short)
    world.settle()
    assert len(world.target.bodies()) == 3
    world.target.release()
    assert world.target.bodies() == [b"two", b"three"]


def refusal(world: ReplicaWorld, name: str = "q") -> str:
    world.run(4)
    replica = world.target.replica(name)
    assert replica.state is ReplicaState.REFUSED
    return replica.reason


def test_a_queue_that_is_not_there_is_followed_when_it_is() -> None:
    world = ReplicaWorld()
    world.target.replicate(URI)
    assert refusal(world) == "404 NOT_FOUND - no queue 'q' in vhost '/'"
    world.source.apply(DeclareQueue("q", durable=True))
    world.source.put(b"one")
    world.settle()


@pytest.mark.parametrize(
    ("durable", "arguments", "reason"),
    [
        (True, {"x-queue-type": "stream"}, "cannot have a replica: it is a stream"),
        (False, {}, "cannot have a replica: it is not a durable queue of clients"),
    ],
)
def test_what_cannot_have_a_replica(
    durable: bool, arguments: dict[str, object], reason: str
) -> None:
    world = ReplicaWorld()
    world.source.apply(DeclareQueue("q", durable=durable, arguments=arguments))
    world.target.replicate(URI)
    assert reason in refusal(world)


def test_an_exclusive_queue_has_no_replica() -> None:
    world = ReplicaWorld()
    world.source.apply(DeclareQueue("q", exclusive=True, connection=77))
    world.target.replicate(URI)
    assert "RESOURCE_LOCKED" in refusal(world)


def test_a_queue_cannot_follow_itself() -> None:
    world = ReplicaWorld()
    world.target.replicate("amqp://guest:guest@target/")
    assert "it is itself a replica, of queue 'q' at amqp://target/" in refusal(world)


def test_replicas_do_not_form_a_circle() -> None:
    world = ReplicaWorld()
    world.source.replicate("amqp://guest:guest@target/")
    world.target.replicate(URI)
    assert "replicas of replicas could form a circle" in refusal(world)


def test_a_replica_is_not_declared_over_a_queue_that_is_there() -> None:
    world = ReplicaWorld()
    world.target.apply(DeclareQueue("q", durable=True))
    world.target.put(b"mine")
    with pytest.raises(PreconditionFailed, match="exists and is not a replica"):
        world.target.replicate(URI)
    assert world.target.bodies() == [b"mine"]


def test_a_replica_does_not_change_its_source() -> None:
    world = following(b"one")
    with pytest.raises(PreconditionFailed, match="Release it before it follows another queue"):
        world.target.replicate("amqp://guest:guest@elsewhere/")


def test_a_source_that_was_declared_again_is_left_alone() -> None:
    world = following(b"one", b"two")
    world.source.apply(DeleteQueue("q"))
    world.source.apply(DeclareQueue("q", durable=True))
    world.source.put(b"other")
    world.run(5)
    assert "is not the queue that this replica has followed" in refusal(world)
    assert world.target.bodies() == [b"one", b"two"]


def test_a_server_that_gets_the_definitions_of_another_follows_the_same_source() -> None:
    """The ids that it has are none, whatever the parameter says of the source."""
    world = following(b"one", b"two")
    exported = export(world.target.node.state)
    world.target.apply(DeleteQueue("q"))
    state = world.target.node.state
    apply_definitions(state, exported)
    world.settle()
    assert world.target.bodies() == [b"one", b"two"]
    world.source.put(b"three")
    world.settle()
    before = world.target.replica().fetched_count
    # Of a replica that exists, definitions change nothing.
    apply_definitions(state, exported)
    world.source.put(b"four")
    world.settle()
    assert world.target.bodies() == [b"one", b"two", b"three", b"four"]
    assert world.target.replica().fetched_count == before + 1


def test_a_wrong_password_is_told() -> None:
    world = ReplicaWorld()
    world.target.replicate("amqp://guest:wrong@source/")
    assert refusal(world).startswith("403 ACCESS_REFUSED")


def test_an_address_that_cannot_be_read_is_told() -> None:
    world = ReplicaWorld()
    world.target.replicate("amqp://source:port/")
    assert "cannot read the address" in refusal(world)
