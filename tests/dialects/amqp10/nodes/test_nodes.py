"""What termini stand for, against a real virtual host."""

import pytest

from penstock.broker.errors import (
    AccessRefused,
    NotFound,
    PreconditionFailed,
    ResourceLocked,
)
from penstock.broker.queues.reading import StartKind
from penstock.broker.topology import DeclareQueue
from penstock.dialects.amqp10.nodes.filters import described_selector
from penstock.dialects.amqp10.nodes.nodes import (
    Ending,
    release_source,
    release_target,
    resolve_anonymous,
)
from penstock.wire.amqp10.performatives_generated import (
    DeleteOnNoLinks,
    Modified,
    Released,
    Source,
    Target,
)
from penstock.wire.amqp10.values import Described, Symbol, UInt
from tests.dialects.amqp10.nodes.node_doubles import OTHER, Taking, World, refused


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("address", ["orders", "/queues/orders", "/queue/orders"])
def test_a_source_on_a_queue_is_the_queue(world: World, address: str) -> None:
    node = world.source(Source(address, capabilities=["queue", "unknown"]))
    assert node.queue is world.vhost.queues["orders"]
    assert not node.browses and not node.is_subscription and not node.no_local
    answered = node.answered
    assert (answered.address, answered.distribution_mode) == (address, "move")
    assert isinstance(answered.default_outcome, Released)
    assert "amqp:modified:list" in answered.outcomes
    assert answered.capabilities == ["queue"]
    assert answered.filter_ is None
    release_source(node, Ending.CLOSED, 0)
    assert "orders" in world.names()


def test_a_source_that_asks_for_copies_browses(world: World) -> None:
    node = world.source(Source("orders", distribution_mode="copy"))
    assert node.browses
    assert node.answered.distribution_mode == "copy"


def test_the_answer_keeps_to_the_outcomes_that_were_asked_for(world: World) -> None:
    asked = Source(
        "orders",
        default_outcome=Modified(delivery_failed=True),
        outcomes=["amqp:accepted:list", "acme:odd:list"],
    )
    answered = world.source(asked).answered
    assert answered.default_outcome == Modified(delivery_failed=True)
    assert answered.outcomes == ["amqp:accepted:list"]


def test_the_answer_tells_which_filters_are_in_force(world: World) -> None:
    selector = described_selector("colour = 'red'")
    asked = Source("orders", filter_={"s": selector, "odd": Described(Symbol("acme:odd"), 1)})
    node = world.source(asked)
    assert node.answered.filter_ == {"s": selector}
    consumer = Taking(node)
    world.publish("", "orders", b"blue", colour="blue")
    world.publish("", "orders", b"red", colour="red")
    assert consumer.bodies == [b"red"]
    # A queue has other consumers: what this one does not want stays.
    assert node.queue.message_count == 1


def test_a_source_on_a_stream_begins_at_an_offset(world: World) -> None:
    stream = world.host.declare("log")
    first = Described(Symbol("rabbitmq:stream-offset-spec"), "first")
    node = world.source(Source("/queues/log", filter_={"o": first}))
    assert node.queue is stream
    assert node.selection.start.kind is StartKind.FIRST
    assert not node.browses
    assert node.answered.distribution_mode == "copy"
    assert node.answered.filter_ == {"o": first}


def test_what_is_not_there_is_not_found(world: World) -> None:
    for address in ("/queues/gone", "gone"):
        for terminus in (Source(address, capabilities=["queue"]), Target(address)):
            refusal = refused(world, terminus)
            assert isinstance(refusal, NotFound)
            assert refusal.text == "no queue 'gone' in vhost '/'"
    for terminus in (Source("/exchanges/gone"), Target("gone", capabilities=["topic"])):
        refusal = refused(world, terminus)
        assert isinstance(refusal, NotFound)
        assert refusal.text == "no exchange 'gone' in vhost '/'"


def test_an_exclusive_queue_of_another_connection_can_be_sent_to_only(world: World) -> None:
    world.vhost.apply(DeclareQueue("mine", exclusive=True, connection=OTHER), 0)
    assert isinstance(refused(world, Source("mine")), ResourceLocked)
    assert world.target(Target("mine")).address is not None


def test_termini_that_make_no_sense_are_refused(world: World) -> None:
    for terminus in (
        Source(),
        Source(5),
        Target(5),
        Source("orders", dynamic=True),
        Target("orders", dynamic=True),
        Source("orders", expiry_policy="tomorrow"),
        Target("orders", expiry_policy="tomorrow"),
        Source(dynamic=True, dynamic_node_properties={"lifetime-policy": "soon"}),
        Source(dynamic=True, filter_={"s": described_selector("=")}),
        Source("/exchanges/news", filter_={"s": described_selector("=")}),
        Source("new", capabilities=["create"], filter_={"s": described_selector("=")}),
        Source("new", capabilities=["create"], dynamic_node_properties={"durable": 1}),
        Source("/queues/a%0Ab", capabilities=["create"]),
        Target("/exchanges/a%0Db", capabilities=["create"]),
    ):
        assert isinstance(refused(world, terminus), PreconditionFailed)


@pytest.mark.parametrize(
    ("configure", "write", "read", "allowed"),
    [
        (".*", ".*", ".*", "orders subscribe send-queue send-topic dynamic make topic inbox"),
        ("", "", "^orders$", "orders"),
        ("", "", ".*", "orders"),
        ("", ".*", "", "send-queue send-topic"),
        ("", "^news$", "", "send-topic"),
        ("", r"^amq\.default$", "", "send-queue"),
        (".*", "^amq.gen", "^(news|amq.gen.*)$", "subscribe dynamic"),
        (".*", "^news$", ".*", "orders send-topic dynamic make"),
        (".*", ".*", "^news$", "send-queue send-topic topic inbox"),
    ],
)
def test_permissions_are_those_of_the_commands(
    configure: str, write: str, read: str, allowed: str
) -> None:
    termini: dict[str, Source | Target] = {
        "orders": Source("orders"),
        "subscribe": Source("/exchanges/news"),
        "send-queue": Target("/queues/orders"),
        "send-topic": Target("/exchanges/news"),
        "dynamic": Source(dynamic=True),
        "make": Source("new", capabilities=["create"]),
        "inbox": Target(dynamic=True),
        "topic": Target(dynamic=True, capabilities=["temporary-topic"]),
    }
    for name, terminus in termini.items():
        world = World()
        world.access.grant(configure, write, read)
        if name in allowed.split():
            world.attach(terminus)
        else:
            assert isinstance(refused(world, terminus), AccessRefused), name


# Targets.


@pytest.mark.parametrize(
    ("address", "exchange", "key"),
    [
        ("orders", "", "orders"),
        ("/queues/orders", "", "orders"),
        ("/exchanges/news/a.b", "news", "a.b"),
        ("/exchanges/news", "news", None),
        ("news", "news", None),
    ],
)
def test_a_target_is_an_exchange_with_a_key_or_without(
    world: World, address: str, exchange: str, key: str | None
) -> None:
    node = world.target(Target(address))
    assert node.address is not None
    assert (node.address.exchange, node.address.routing_key) == (exchange, key)
    assert node.answered.address == address


def test_over_an_anonymous_target_each_message_says_where_it_goes(world: World) -> None:
    node = world.target(Target(capabilities=["queue"]))
    assert node.address is None
    assert node.answered.address is None
    address = resolve_anonymous(world.principal, world.vhost, "/exchanges/news/k")
    assert (address.exchange, address.routing_key) == ("news", "k")
    # Whether a queue is there is routing's question.
    assert resolve_anonymous(world.principal, world.vhost, "/queues/gone").queue == "gone"
    for to, kind in {
        None: PreconditionFailed,
        "/nowhere": PreconditionFailed,
        "/exchanges/gone": NotFound,
        "/exchanges/amq.rabbitmq.trace": AccessRefused,
    }.items():
        with pytest.raises(kind):
            resolve_anonymous(world.principal, world.vhost, to)
    world.access.grant("", "", "")
    with pytest.raises(AccessRefused):
        resolve_anonymous(world.principal, world.vhost, "/exchanges/news/k")


def test_internal_exchanges_are_not_sent_to(world: World) -> None:
    refusal = refused(world, Target("/exchanges/amq.rabbitmq.trace"))
    assert isinstance(refusal, AccessRefused)
    assert refusal.text == "cannot publish to internal exchange 'amq.rabbitmq.trace' in vhost '/'"


# Creation on attach.


def test_a_missing_queue_is_created_by_capability(world: World) -> None:
    world.target(Target("made", capabilities=["create"]))
    made = world.vhost.queues["made"]
    assert made.durable and not made.auto_delete and made.exclusive_owner == -1
    node = world.source(Source("/queues/made", capabilities=["queue", "create"]))
    assert node.queue is made
    assert node.answered.capabilities == ["queue", "create"]
    release_source(node, Ending.CLOSED, 0)
    assert "made" in world.names()


@pytest.mark.parametrize("kind", [Source, Target])
def test_a_bare_name_that_is_missing_becomes_a_durable_queue(
    world: World, kind: type[Source] | type[Target]
) -> None:
    world.creates_queues = True
    world.attach(kind("examples"))
    queue = world.vhost.queues["examples"]
    assert queue.durable and not queue.auto_delete and queue.exclusive_owner == -1
    # Whoever comes next finds it.
    world.attach(Target("examples"))
    assert world.vhost.queues["examples"] is queue


@pytest.mark.parametrize("kind", [Source, Target])
def test_a_bare_name_becomes_the_queue_that_its_terminus_describes(
    world: World, kind: type[Source] | type[Target]
) -> None:
    world.creates_queues = True
    properties: dict[str, object] = {"durable": False, "x-max-length": 5}
    world.attach(kind("examples", dynamic_node_properties=properties))
    queue = world.vhost.queues["examples"]
    assert not queue.durable
    assert queue.arguments == {"x-max-length": 5}


@pytest.mark.parametrize("kind", [Source, Target])
@pytest.mark.parametrize("address", ["/queues/examples", "/queue/examples", "/amq/queue/examples"])
def test_other_forms_of_an_address_create_nothing(
    world: World, kind: type[Source] | type[Target], address: str
) -> None:
    world.creates_queues = True
    assert isinstance(refused(world, kind(address)), NotFound)


@pytest.mark.parametrize("kind", [Source, Target])
def test_a_bare_name_is_created_only_by_who_may_configure_it(
    world: World, kind: type[Source] | type[Target]
) -> None:
    world.creates_queues = True
    world.access.grant("mine-.*", ".*", ".*")
    refusal = refused(world, kind("examples"))
    assert isinstance(refusal, NotFound)
    assert "user 'user' has no configure permission for it" in refusal.text
    world.attach(kind("mine-examples"))
    assert "mine-examples" in world.names()


@pytest.mark.parametrize("kind", [Source, Target])
def test_the_operator_may_turn_the_creation_of_bare_names_off(
    world: World, kind: type[Source] | type[Target]
) -> None:
    assert isinstance(refused(world, kind("examples")), NotFound)


def test_a_bare_name_of_an_exchange_creates_no_queue(world: World) -> None:
    world.creates_queues = True
    world.target(Target("news"))
    assert "news" not in world.names()
    # Nor one of which a topic is asked for.
    refusal = refused(world, Source("examples", capabilities=["topic"]))
    assert isinstance(refusal, NotFound)


def test_a_wrong_filter_leaves_no_queue_behind(world: World) -> None:
    world.creates_queues = True
    selector: dict[str, object] = {"s": described_selector("colour =")}
    assert isinstance(refused(world, Source("examples", filter_=selector)), PreconditionFailed)


def test_names_of_the_broker_are_not_created(world: World) -> None:
    world.creates_queues = True
    assert isinstance(refused(world, Source("amq.examples")), AccessRefused)


def test_a_queue_is_created_with_the_properties_of_the_terminus(world: World) -> None:
    properties: dict[str, object] = {
        "x-max-length": UInt(5),
        "x-overflow": Symbol("reject-publish"),
        "durable": False,
        "auto-delete": True,
    }
    asked = Source("made", capabilities=["queue"], dynamic_node_properties=properties)
    made = world.source(asked).queue
    assert made.auto_delete and not made.durable
    assert made.arguments == {"x-max-length": 5, "x-overflow": "reject-publish"}
    # It is there now, so nothing is created, and nothing compared.
    world.source(Source("made", capabilities=["create"]))


def test_a_stream_is_created_and_read_at_once(world: World) -> None:
    asked = Source(
        "log",
        capabilities=["create"],
        dynamic_node_properties={"x-queue-type": "stream"},
        filter_={"o": Described(Symbol("rabbitmq:stream-offset-spec"), "first")},
    )
    node = world.source(asked)
    assert node.queue is world.host.stream("log")
    assert node.selection.start.kind is StartKind.FIRST


def test_a_missing_topic_is_created_by_capability(world: World) -> None:
    node = world.target(Target("sports", capabilities=["topic", "create"]))
    assert node.address is not None and node.address.exchange == "sports"
    assert (world.vhost.exchanges["sports"].kind, world.vhost.exchanges["sports"].durable) == (
        "topic",
        True,
    )
    fanout: dict[str, object] = {"exchange-type": "fanout"}
    asked = Source("/exchanges/all", capabilities=["topic"], dynamic_node_properties=fanout)
    assert world.source(asked).is_subscription
    assert world.vhost.exchanges["all"].kind == "fanout"


def test_a_created_queue_may_have_a_lifetime(world: World) -> None:
    properties: dict[str, object] = {"lifetime-policy": DeleteOnNoLinks()}
    asked = Target("made", capabilities=["queue"], dynamic_node_properties=properties)
    one = world.target(asked)
    assert not world.vhost.queues["made"].durable
    two = world.source(Source("made"))
    release_target(one, Ending.CLOSED, 0)
    assert "made" in world.names()
    release_source(two, Ending.CLOSED, 0)
    assert "made" not in world.names()
