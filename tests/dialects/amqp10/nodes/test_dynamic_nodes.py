"""Nodes that are made for a link, and when they go."""

import pytest

from penstock.broker.errors import (
    NotFound,
)
from penstock.broker.topology import DeleteQueue
from penstock.dialects.amqp10.nodes.nodes import (
    CONNECTION_CLOSE,
    NEVER,
    SESSION_END,
    Ending,
    TargetNode,
    release_source,
    release_target,
    resume_source,
    resume_target,
)
from penstock.wire.amqp10.performatives_generated import (
    DeleteOnClose,
    DeleteOnNoLinks,
    DeleteOnNoLinksOrMessages,
    DeleteOnNoMessages,
    Source,
    Target,
)
from penstock.wire.amqp10.values import Composite, Described, Symbol, UInt, ULong
from tests.dialects.amqp10.nodes.node_doubles import OTHER, OWN, Taking, World


@pytest.fixture
def world() -> World:
    return World()


def test_a_dynamic_source_is_a_queue_with_a_drawn_name(world: World) -> None:
    asked = Source(dynamic=True, dynamic_node_properties={"x-message-ttl": UInt(9)})
    node = world.source(asked)
    name = node.queue.name
    assert name.startswith("amq.gen-")
    assert not node.queue.durable and node.queue.exclusive_owner == OWN
    assert node.queue.arguments == {"x-message-ttl": 9}
    assert node.answered.dynamic
    assert node.answered.address == f"/queues/{name}"
    assert node.answered.dynamic_node_properties == {
        "lifetime-policy": DeleteOnClose(),
        "x-message-ttl": 9,
    }
    # Others answer there.
    reply = world.target(Target(node.answered.address), OTHER)
    assert reply.address is not None
    assert world.publish(reply.address.exchange, name, b"reply") == [name]
    release_source(node, Ending.CLOSED, 0)
    assert name not in world.names()
    release_target(reply, Ending.CLOSED, 0)


def test_a_dynamic_target_can_be_received_from_by_others(world: World) -> None:
    node = world.target(Target(dynamic=True, capabilities=["temporary-queue"]))
    assert node.address is not None
    name = node.address.queue
    assert node.answered.address == f"/queues/{name}"
    reader = world.source(Source(node.answered.address), connection=OTHER)
    consumer = Taking(reader)
    release_target(node, Ending.EXPIRED, 0)
    assert consumer.heard_cancel
    assert name not in world.names()
    with pytest.raises(NotFound):
        resume_source(reader)


def test_a_temporary_topic_is_an_exchange_that_goes_with_its_link(world: World) -> None:
    node = world.target(Target(dynamic=True, capabilities=["temporary-topic"]))
    assert node.address is not None
    name = node.address.exchange
    assert world.vhost.exchanges[name].kind == "topic"
    assert node.answered.address == f"/exchanges/{name}"
    assert node.answered.capabilities == ["temporary-topic"]
    reader = world.source(Source(node.answered.address, capabilities=["temporary-topic"]))
    assert world.publish(name, "", b"m") == [reader.queue.name]
    release_target(node, Ending.SUSPENDED, 0)
    assert name in world.vhost.exchanges
    release_target(node, Ending.CLOSED, 0)
    release_target(node, Ending.CLOSED, 0)
    assert name not in world.vhost.exchanges


@pytest.mark.parametrize(
    "policy",
    [
        DeleteOnNoLinks(),
        Described(ULong(0x2C), []),
        Described(Symbol("amqp:delete-on-no-links:list"), []),
    ],
)
def test_delete_on_no_links_counts_both_kinds_of_link(world: World, policy: object) -> None:
    asked = Source(dynamic=True, dynamic_node_properties={"lifetime-policy": policy})
    node = world.source(asked)
    assert node.answered.dynamic_node_properties == {"lifetime-policy": DeleteOnNoLinks()}
    name = node.queue.name
    sender = world.target(Target(node.answered.address), OTHER)
    reader = world.source(Source(node.answered.address), connection=OTHER)
    release_source(node, Ending.CLOSED, 0)
    release_target(sender, Ending.CLOSED, 0)
    # A suspended link still is a link.
    release_source(reader, Ending.SUSPENDED, 0)
    assert name in world.names()
    resume_source(reader)
    release_source(reader, Ending.EXPIRED, 0)
    assert name not in world.names()


def made_with(world: World, policy: Composite) -> TargetNode:
    return world.target(Target(dynamic=True, dynamic_node_properties={"lifetime-policy": policy}))


def test_delete_on_no_messages_waits_until_all_is_settled(world: World) -> None:
    node = made_with(world, DeleteOnNoMessages())
    assert node.address is not None and node.address.queue is not None
    name = node.address.queue
    reader = world.source(Source(node.answered.address))
    consumer = Taking(reader)
    world.publish("", name, b"one")
    world.publish("", name, b"two")
    queue = reader.queue
    # It was empty before, but then its maker was there.
    queue.acknowledge(consumer.entries[0])
    release_target(node, Ending.CLOSED, 0)
    world.tick()
    assert name in world.names()
    queue.acknowledge(consumer.entries[1])
    world.tick()
    assert name not in world.names()
    assert consumer.heard_cancel


def test_delete_on_no_messages_ends_an_empty_node_with_its_link(world: World) -> None:
    node = made_with(world, DeleteOnNoMessages())
    assert node.address is not None
    release_target(node, Ending.CLOSED, 0)
    assert node.address.queue not in world.names()


def test_delete_on_no_links_or_messages_waits_for_both(world: World) -> None:
    node = made_with(world, DeleteOnNoLinksOrMessages())
    assert node.address is not None and node.address.queue is not None
    name = node.address.queue
    world.publish("", name, b"one")
    release_target(node, Ending.CLOSED, 0)
    assert name in world.names()
    reader = world.source(Source(node.answered.address))
    consumer = Taking(reader)
    reader.queue.touch()
    world.tick()
    reader.queue.acknowledge(consumer.entries[0])
    world.tick()
    assert name in world.names()
    reader.queue.remove_consumer(consumer, 0)
    release_source(reader, Ending.CLOSED, 0)
    assert name not in world.names()


def test_a_dynamic_node_that_outlives_its_connection_is_not_exclusive(world: World) -> None:
    for asked in (
        Source(dynamic=True, timeout=30),
        Source(dynamic=True, expiry_policy=NEVER),
        Source(dynamic=True, dynamic_node_properties={"lifetime-policy": DeleteOnNoLinks()}),
    ):
        node = world.source(asked)
        world.vhost.connection_ended(OWN, 0)
        resume_source(node)
        release_source(node, Ending.EXPIRED, 0)
        assert node.queue.is_deleted
    gone = world.source(Source(dynamic=True))
    world.vhost.connection_ended(OWN, 0)
    with pytest.raises(NotFound):
        resume_source(gone)
    release_source(gone, Ending.EXPIRED, 0)


def test_a_node_that_somebody_deleted_is_released_in_peace(world: World) -> None:
    node = world.source(Source(dynamic=True, expiry_policy=NEVER))
    world.vhost.apply(DeleteQueue(node.queue.name), 0)
    release_source(node, Ending.CLOSED, 0)
    release_source(node, Ending.CLOSED, 0)


def test_the_facts_of_expiry_are_for_the_caller(world: World) -> None:
    node = world.source(Source("orders", durable=2, expiry_policy=CONNECTION_CLOSE, timeout=3))
    assert (node.expiry_policy, node.timeout_ms, node.is_durable) == (CONNECTION_CLOSE, 3000, True)
    answered = node.answered
    assert (answered.durable, answered.expiry_policy, answered.timeout) == (2, CONNECTION_CLOSE, 3)
    target = world.target(Target("orders"))
    assert (target.expiry_policy, target.timeout_ms, target.is_durable) == (SESSION_END, 0, False)
    resume_target(target)
