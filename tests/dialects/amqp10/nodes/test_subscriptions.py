"""Sources on exchanges."""

import pytest

from penstock.broker.errors import (
    AccessRefused,
    NotFound,
    PreconditionFailed,
)
from penstock.broker.topology import (
    DeclareExchange,
    DeclareQueue,
    SetTopicPermissions,
    SetVhostLimits,
)
from penstock.dialects.amqp10.nodes.addresses import queue_address
from penstock.dialects.amqp10.nodes.filters import described_no_local, described_selector
from penstock.dialects.amqp10.nodes.nodes import (
    NEVER,
    Ending,
    release_source,
    release_target,
    resume_source,
)
from penstock.wire.amqp10.performatives_generated import (
    Source,
    Target,
)
from penstock.wire.amqp10.values import Described, Symbol
from tests.dialects.amqp10.nodes.node_doubles import LINK, OTHER, OWN, Taking, World, refused


@pytest.fixture
def world() -> World:
    return World()


def test_a_source_on_an_exchange_is_a_queue_of_its_own(world: World) -> None:
    one = world.source(Source("/exchanges/news/a.*"))
    two = world.source(Source("/exchanges/news/a.*"))
    assert one.is_subscription
    assert one.queue is not two.queue
    assert one.queue.exclusive_owner == OWN
    assert one.answered.address == "/exchanges/news/a.*"
    assert set(world.publish("news", "a.b", b"m")) == {one.queue.name, two.queue.name}
    assert world.publish("news", "b", b"m") == []
    release_source(one, Ending.CLOSED, 0)
    assert world.publish("news", "a.b", b"m") == [two.queue.name]
    world.vhost.connection_ended(OWN, 0)
    assert world.publish("news", "a.b", b"m") == []


def test_a_subscription_needs_a_topic_permission_for_its_key(world: World) -> None:
    world.topics.grant(SetTopicPermissions("user", "/", "news", "", "^a"))
    queues = set(world.vhost.queues)
    with pytest.raises(AccessRefused, match="access to topic 'b' in exchange 'news' in vhost '/'"):
        world.source(Source("/exchanges/news/b"))
    with pytest.raises(AccessRefused, match="access to topic '#'"):
        world.source(Source("news"))
    assert set(world.vhost.queues) == queues
    world.source(Source("/exchanges/news/a"))


def test_a_subscription_outlives_a_detach_within_its_session(world: World) -> None:
    node = world.source(Source("news"))
    consumer = Taking(node)
    node.queue.remove_consumer(consumer, 0)
    release_source(node, Ending.SUSPENDED, 0)
    world.publish("news", "a", b"while away")
    resume_source(node)
    assert node.queue.message_count == 1


def test_without_a_key_a_subscription_gets_everything(world: World) -> None:
    world.vhost.apply(DeclareExchange("all", "fanout"), 0)
    world.vhost.apply(DeclareExchange("h", "headers"), 0)
    for name in ("news", "all", "h"):
        node = world.source(Source(f"/exchanges/{name}", distribution_mode="copy"))
        assert not node.browses
        assert world.publish(name, "x.y", b"m") == [node.queue.name]


def test_legacy_binding_filters_bind(world: World) -> None:
    topic = Described(Symbol("apache.org:legacy-amqp-topic-binding:string"), "a.#")
    direct = Described(Symbol("apache.org:legacy-amqp-direct-binding:string"), "k")
    headers = Described(
        Symbol("apache.org:legacy-amqp-headers-binding:map"), {"colour": Symbol("red")}
    )
    by_topic = world.source(Source("news", filter_={"t": topic, "d": direct}))
    assert by_topic.answered.filter_ == {"t": topic}
    by_key = world.source(Source("amq.direct", filter_={"t": topic, "d": direct}))
    assert by_key.answered.filter_ == {"d": direct}
    by_headers = world.source(Source("amq.match", filter_={"h": headers}))
    assert world.publish("news", "a.b", b"m") == [by_topic.queue.name]
    assert world.publish("news", "b", b"m") == []
    assert world.publish("amq.direct", "k", b"m") == [by_key.queue.name]
    assert world.publish("amq.match", "", b"m", colour="red") == [by_headers.queue.name]
    assert world.publish("amq.match", "", b"m", colour="blue") == []


def test_what_a_subscription_does_not_select_does_not_pile_up(world: World) -> None:
    filters: dict[str, object] = {
        "s": described_selector("colour = 'red'"),
        "nl": described_no_local(),
    }
    node = world.source(Source("news", filter_=filters))
    assert node.no_local
    world.publish("news", "a", b"blue", colour="blue")
    world.publish("news", "a", b"own", OWN, colour="red")
    world.publish("news", "a", b"red", colour="red")
    assert node.queue.message_count == 1
    consumer = Taking(node)
    world.publish("news", "a", b"red too", colour="red")
    world.publish("news", "a", b"green", colour="green")
    assert consumer.bodies == [b"red", b"red too"]
    assert node.queue.message_count == 0
    # What comes back is still selected.
    node.queue.requeue([consumer.entries[0]], 0)
    world.tick()
    assert consumer.bodies == [b"red", b"red too", b"red"]
    release_source(node, Ending.CLOSED, 0)
    assert node.queue.is_deleted


DURABLE = "subscriptions/ID:one/news-reader"


@pytest.mark.parametrize(
    "asked",
    [
        Source("news", durable=2, expiry_policy=NEVER),
        Source("news", durable=1),
        Source("news", expiry_policy=NEVER),
    ],
)
def test_a_durable_subscription_keeps_messages_while_away(world: World, asked: Source) -> None:
    node = world.source(asked)
    assert node.queue.name == DURABLE
    assert node.queue.durable and node.queue.exclusive_owner == -1
    release_source(node, Ending.SUSPENDED, 0)
    world.vhost.connection_ended(OWN, 0)
    assert world.publish("news", "a", b"while away") == [DURABLE]
    again = world.source(asked, connection=OTHER)
    assert again.queue is node.queue
    assert again.queue.message_count == 1
    release_source(again, Ending.CLOSED, 0)
    assert DURABLE not in world.names()


def test_messages_that_go_while_subscribers_are_away_do_not_unsubscribe_them(world: World) -> None:
    red: dict[str, object] = {"s": described_selector("colour = 'red'")}
    asked = Source("news", expiry_policy=NEVER, filter_=red, capabilities=["shared"])
    one, two = world.source(asked, "sub"), world.source(asked, "sub|2")
    release_source(one, Ending.CLOSED, 0)
    release_source(two, Ending.SUSPENDED, 0)
    world.publish("news", "a", b"blue", colour="blue")
    world.publish("news", "a", b"red", colour="red")
    world.tick()
    assert two.queue.message_count == 1
    two.queue.purge(0)
    world.tick()
    assert not two.queue.is_deleted


def test_a_link_to_the_queue_of_a_subscription_is_no_subscriber(world: World) -> None:
    node = world.source(Source("news", expiry_policy=NEVER))
    address = queue_address(node.queue.name)
    reader, sender = world.source(Source(address)), world.target(Target(address))
    release_source(node, Ending.SUSPENDED, 0)
    release_source(reader, Ending.CLOSED, 0)
    assert node.queue.name in world.names()
    release_source(node, Ending.CLOSED, 0)
    assert node.queue.is_deleted
    release_target(sender, Ending.CLOSED, 0)


def test_a_subscription_with_a_time_out_outlives_its_connection(world: World) -> None:
    asked = Source("news", timeout=60)
    node = world.source(asked)
    assert node.queue.name == "volatile-subscriptions/ID:one/news-reader"
    assert not node.queue.durable
    release_source(node, Ending.SUSPENDED, 0)
    world.vhost.connection_ended(OWN, 0)
    resume_source(node)
    release_source(node, Ending.SUSPENDED, 0)
    release_source(node, Ending.EXPIRED, 0)
    assert node.queue.is_deleted


def test_names_of_subscriptions_cannot_be_confused(world: World) -> None:
    asked = Source("news", expiry_policy=NEVER)
    queues = [
        world.source(asked, link="c", container="a/b").queue.name,
        world.source(asked, link="b/c", container="a").queue.name,
        world.source(asked, link="c", container="a%2Fb").queue.name,
    ]
    assert len(set(queues)) == 3
    with pytest.raises(PreconditionFailed, match="longer than 255 bytes"):
        world.source(asked, link="l" * 250)


def test_subscribing_to_something_else_under_a_name_begins_anew(world: World) -> None:
    red: dict[str, object] = {"s": described_selector("colour = 'red'")}
    node = world.source(Source("news", expiry_policy=NEVER, filter_=red))
    changed = Source("/exchanges/news/a", expiry_policy=NEVER)
    assert node.is_for(Source("news", filter_=red)) and not node.is_for(changed)
    refusal = refused(world, changed)
    assert isinstance(refusal, PreconditionFailed)
    assert "subscription 'news-reader' in vhost '/' is in use" in refusal.text
    world.publish("news", "b", b"old", colour="red")
    release_source(node, Ending.SUSPENDED, 0)
    again = world.source(changed)
    assert node.queue.is_deleted
    assert again.queue.message_count == 0
    assert world.publish("news", "b", b"m") == []
    assert world.publish("news", "a", b"m") == [DURABLE]


def test_a_queue_that_is_no_subscription_is_never_taken_for_one(world: World) -> None:
    world.vhost.apply(DeclareQueue(DURABLE, durable=True), 0)
    refusal = refused(world, Source("news", expiry_policy=NEVER))
    assert refusal.text == f"queue '{DURABLE}' in vhost '/' exists and is not subscription '{LINK}'"


def test_links_share_a_subscription_by_the_name_before_the_bar(world: World) -> None:
    asked = Source("news", capabilities=["topic", "shared"])
    one = world.source(asked, "sub|volatile1")
    two = world.source(asked, "sub|volatile2", connection=OTHER)
    other = world.source(asked, "sub|volatile1", "ID:two")
    assert one.queue is two.queue
    assert other.queue is not one.queue
    assert one.answered.capabilities == ["topic", "shared"]
    release_source(one, Ending.CLOSED, 0)
    assert not two.queue.is_deleted
    release_source(two, Ending.EXPIRED, 0)
    assert two.queue.is_deleted


def test_a_global_subscription_is_shared_by_containers(world: World) -> None:
    asked = Source("news", durable=2, expiry_policy=NEVER, capabilities=["shared", "global"])
    one = world.source(asked, "sub|global", "ID:one")
    two = world.source(asked, "sub|global2", "ID:two")
    assert one.queue is two.queue
    assert one.queue.name == "subscriptions//sub"
    volatile = Source("news", capabilities=["shared", "global"])
    assert world.source(volatile, "sub|global-volatile1").queue is not one.queue
    # One subscriber that is away does not keep another from unsubscribing.
    release_source(one, Ending.SUSPENDED, 0)
    release_source(two, Ending.CLOSED, 0)
    assert one.queue.is_deleted


def test_a_closed_link_does_not_end_a_durable_subscription_that_others_use(world: World) -> None:
    asked = Source("news", expiry_policy=NEVER, capabilities=["shared"])
    one = world.source(asked, "sub")
    two = world.source(asked, "sub|2")
    release_source(one, Ending.CLOSED, 0)
    assert not two.queue.is_deleted
    # To use it alone is something else.
    with pytest.raises(PreconditionFailed):
        world.source(Source("news", expiry_policy=NEVER), "sub")


def test_a_durable_subscription_is_recalled_by_its_name(world: World) -> None:
    filters: dict[str, object] = {
        "s": described_selector("colour = 'red'"),
        "nl": described_no_local(),
    }
    asked = Source("/exchanges/news/a", durable=2, expiry_policy=NEVER, filter_=filters)
    release_source(world.source(asked), Ending.SUSPENDED, 0)
    node = world.recall()
    assert node.queue.name == DURABLE
    answered = node.answered
    assert (answered.address, answered.durable, answered.expiry_policy) == (
        "/exchanges/news/a",
        2,
        NEVER,
    )
    assert answered.filter_ == {
        "selector": described_selector("colour = 'red'"),
        "no-local": described_no_local(),
    }
    release_source(node, Ending.CLOSED, 0)
    assert DURABLE not in world.names()
    with pytest.raises(NotFound, match="no subscription 'news-reader' in vhost '/'"):
        world.recall()


def test_a_global_subscription_is_recalled_with_its_capabilities(world: World) -> None:
    asked = Source("news", expiry_policy=NEVER, capabilities=["shared", "global"])
    queue = world.source(asked, "sub|global").queue
    assert world.recall("sub|global", "shared", "global").queue is queue
    with pytest.raises(NotFound):
        world.recall("sub")


def test_a_resumed_dynamic_source_names_the_address_it_was_given(world: World) -> None:
    node = world.source(Source(dynamic=True))
    assert node.is_for(Source(node.answered.address))
    assert not node.is_for(Source(dynamic=True))
    assert not node.is_for(Source("orders"))


def test_a_full_virtual_host_refuses_subscriptions_and_dynamic_nodes(world: World) -> None:
    world.vhost.apply(SetVhostLimits(max_queues=1), 0)
    for terminus in (Source("news"), Source(dynamic=True), Target(dynamic=True)):
        assert "queue limit in vhost '/' (1) is reached" in refused(world, terminus).text
