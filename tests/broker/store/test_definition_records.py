"""Definitions as JSON: every command and every value comes back as it was."""

import dataclasses
import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.access.users import DEFAULT_USER_HASH, DEFAULT_USER_SCRAM_KEYS
from penstock.broker.arguments import CLASSIC
from penstock.broker.header_values import Timestamp
from penstock.broker.store.definition_records import (
    Change,
    decode_change,
    decode_snapshot,
    encode_change,
    encode_snapshot,
    snapshot_of,
)
from penstock.broker.topology import (
    AddVhost,
    BindExchange,
    BindQueue,
    BrokerCommand,
    ChangeQueueArguments,
    ClearGlobalParameter,
    ClearOperatorPolicy,
    ClearParameter,
    ClearPermissions,
    ClearPolicy,
    ClearTopicPermissions,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DeleteUser,
    DeleteVhost,
    OpenDelayLine,
    PutUser,
    SetGlobalParameter,
    SetOperatorPolicy,
    SetParameter,
    SetPermissions,
    SetPolicy,
    SetTopicPermissions,
    SetUserLimits,
    SetVhostLimits,
    UnbindExchange,
    UnbindQueue,
    VhostCommand,
)
from penstock.wire.amqp091.field_table import Timestamp as WireTimestamp
from tests.broker.doubles import routed
from tests.broker.store.doubles import ROOMY, Broker, message

ODD = "caf\udce9 \U0001f407"
TABLE: dict[str, object] = {
    "octets": b"\x00\xff",
    "decimal": Decimal("3.14"),
    "float": 0.5,
    "true": True,
    "none": None,
    "long": 2**40,
    "list": [1, "two", b"three", [Decimal(4)], {"five": b"5"}],
    "table": {"$octets": "not octets", "nested": {"$table": {}}},
    ODD: ODD,
}

COMMANDS: list[VhostCommand | BrokerCommand] = [
    ChangeQueueArguments(ODD, {"x-max-length": 5, "x-message-ttl": None}),
    AddVhost(ODD),
    DeleteVhost("v"),
    PutUser("u", "$argon2id$...", ("administrator", "monitoring"), True),
    DeleteUser("u"),
    SetPermissions("u", "v", "^c", ".*", ""),
    ClearPermissions("u", "v"),
    DeclareExchange("e", "topic", True, True, True, False, TABLE),
    DeleteExchange("e", True),
    BindExchange("d", "s", ODD, TABLE),
    UnbindExchange("d", "s", ODD, TABLE),
    DeclareQueue(ODD, True, False, True, False, TABLE, 7, True),
    DeleteQueue("q", True, True, 3),
    BindQueue("q", "e", "k", TABLE, 7),
    UnbindQueue("q", "e", "k", TABLE, 7),
    SetPolicy("p", "^q", {"max-length": 3, "dead-letter-exchange": "d"}, "queues", 5),
    ClearPolicy("p"),
    SetVhostLimits(10, -1),
    AddVhost("v", "of orders", ("a", "b"), "quorum"),
    PutUser("u", "", (), scram_keys="SCRAM-SHA-256$4096:c2FsdA"),
    SetTopicPermissions("u", "v", "e", "^{username}", ""),
    ClearTopicPermissions("u", "v", "e"),
    SetUserLimits("u", 3, -1),
    SetGlobalParameter("g", {"a": [1, None, {"b": 0.5}]}),
    ClearGlobalParameter("g"),
    SetOperatorPolicy("p", "^q", {"max-length": 3}, "queues", 5),
    ClearOperatorPolicy("p"),
    SetParameter("c", "n", ["a", {"$table": 1}]),
    ClearParameter("c", "n"),
    OpenDelayLine(),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_every_command_is_read_back_as_it_was(command: VhostCommand | BrokerCommand) -> None:
    change = decode_change(encode_change(Change("caf\udce9", command, 12)))
    assert change.vhost == "caf\udce9"
    assert change.queue_number == 12
    assert change.command == command
    for field in dataclasses.fields(command):
        assert repr(getattr(change.command, field.name)) == repr(getattr(command, field.name))


@pytest.mark.parametrize("command", [AddVhost("v"), PutUser("u", "hash", ("management",))])
def test_an_earlier_release_reads_commands_that_use_nothing_new(command: BrokerCommand) -> None:
    fields = json.loads(encode_change(Change(None, command, 0)))["fields"]
    known = {"name", "password_hash", "tags", "loopback_only"}
    assert set(fields) == ({"name"} if isinstance(command, AddVhost) else known)


def test_a_command_of_the_broker_names_no_virtual_host() -> None:
    assert decode_change(encode_change(Change(None, AddVhost("v"), 0))).vhost is None


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(alphabet=st.characters(min_codepoint=1))
    | st.binary()
    | st.decimals(allow_nan=False, allow_infinity=False, places=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), VALUES, max_size=5))
def test_arguments_of_any_kind_come_back(arguments: dict[str, object]) -> None:
    command = DeclareQueue("q", arguments=arguments)
    change = decode_change(encode_change(Change("/", command, 1)))
    assert isinstance(change.command, DeclareQueue)
    assert repr(change.command.arguments) == repr(arguments)


@pytest.mark.parametrize("said", [Timestamp(5), WireTimestamp(5)])
def test_a_timestamp_comes_back_as_the_same_second(said: object) -> None:
    command = BindQueue("q", "e", arguments={"at": said})
    change = decode_change(encode_change(Change("/", command, 0)))
    assert isinstance(change.command, BindQueue)
    found = change.command.arguments["at"]
    assert isinstance(found, Timestamp)
    assert found.seconds == 5


def test_a_snapshot_is_read_back_in_order() -> None:
    changes = [Change("/", command, number) for number, command in enumerate(COMMANDS)]
    found, next_number = decode_snapshot(encode_snapshot(changes, 99))
    assert next_number == 99
    assert [change.command for change in found] == COMMANDS
    assert [change.queue_number for change in found] == list(range(len(COMMANDS)))


def remade(broker: Broker) -> Broker:
    """A broker made of another one's snapshot alone."""
    text = encode_snapshot(snapshot_of(broker.state, []), broker.store.next_queue_number)
    other = Broker(limits=ROOMY)
    other.tick()
    other.store.add_snapshot(text)
    other.tick()
    return other.restarted()


def test_a_snapshot_makes_everything_durable_again_and_nothing_else() -> None:
    broker = Broker(limits=ROOMY)
    broker.state.apply(AddVhost("v"), 0)
    broker.state.apply(PutUser("u", DEFAULT_USER_HASH, ("management",), False), 0)
    broker.state.apply(SetPermissions("u", "v", "c", "w", "r"), 0)
    broker.apply(SetPolicy("p", "^q", {"max-length": 3}, "queues", 5))
    broker.apply(DeclareExchange("e", "headers", True, True, True, False, {"x": b"1"}))
    broker.apply(DeclareExchange("transient", "direct"))
    broker.declare("q", arguments={"x-max-length": 9})
    broker.declare("t", durable=False)
    broker.apply(BindQueue("q", "e", "k", {"x-match": "any", "a": Decimal(1)}))
    broker.apply(BindQueue("q", "amq.topic", "a.#"))
    broker.apply(BindQueue("t", "e", "k"))
    broker.apply(BindQueue("q", "transient", "k"))
    broker.apply(BindExchange("amq.fanout", "e", "over"))
    other = remade(broker)
    assert set(other.state.vhosts) == {"/", "v"}
    user = other.state.users.find("u")
    assert user is not None
    assert user.password_hash == DEFAULT_USER_HASH
    assert (user.tags, user.loopback_only) == (("management",), False)
    access = other.state.access.find("u", "v")
    assert access is not None
    assert (access.configure, access.write, access.read) == ("c", "w", "r")
    vhost = other.vhost
    assert set(vhost.queues) == {"q"}
    assert vhost.queues["q"].number == broker.vhost.queues["q"].number
    assert vhost.queues["q"].settings.max_length == 3
    exchange = vhost.exchanges["e"]
    assert (exchange.kind, exchange.auto_delete, exchange.internal) == ("headers", True, True)
    assert exchange.arguments == {"x": b"1"}
    assert "transient" not in vhost.exchanges
    found = {
        (binding.source.name, binding.destination_name, binding.routing_key, str(binding.arguments))
        for binding in vhost.bindings.listed()
    }
    assert found == {
        ("e", "q", "k", "{'x-match': 'any', 'a': Decimal('1')}"),
        ("amq.topic", "q", "a.#", "{}"),
        ("e", "amq.fanout", "over", "{}"),
    }
    assert [policy.name for policy in vhost.policies.listed()] == ["p"]
    assert other.store.next_queue_number == broker.store.next_queue_number


def test_a_snapshot_holds_more_queues_than_the_limit_that_came_later_allows() -> None:
    broker = Broker(limits=ROOMY)
    for number in range(5):
        broker.declare(f"q{number}")
    broker.apply(SetVhostLimits(2, 7))
    other = remade(broker)
    assert len(other.vhost.queues) == 5
    assert (other.vhost.max_queues, other.vhost.max_connections) == (2, 7)


def test_a_snapshot_holds_queues_that_the_server_named() -> None:
    broker = Broker(limits=ROOMY)
    broker.apply(DeclareQueue("amq.gen-1", durable=True, server_named=True))
    assert set(remade(broker).vhost.queues) == {"amq.gen-1"}


def test_a_binding_with_a_timestamp_matches_and_is_found_after_a_restart() -> None:
    broker = Broker(limits=ROOMY)
    broker.declare("q")
    broker.apply(BindQueue("q", "amq.headers", arguments={"at": WireTimestamp(5)}))
    broker.tick()
    restarted = broker.restarted()
    for seconds, expected in (5, ["q"]), (6, []):
        properties = message(b"", headers={"at": WireTimestamp(seconds)}).properties
        assert routed(restarted.vhost, "amq.headers", "", properties) == expected
    restarted.apply(UnbindQueue("q", "amq.headers", arguments={"at": WireTimestamp(5)}))
    assert restarted.vhost.bindings.listed() == []


def test_a_snapshot_makes_what_the_operator_set_again() -> None:
    broker = Broker(limits=ROOMY)
    broker.declare("old")
    for command in (
        AddVhost("/", "of orders", ("a", "b"), "quorum"),
        PutUser("u", DEFAULT_USER_HASH, (), scram_keys=DEFAULT_USER_SCRAM_KEYS),
        SetUserLimits("u", 3, 4),
        SetTopicPermissions("u", "/", "amq.topic", "^{username}", "r"),
        SetGlobalParameter("cluster_name", "orders"),
    ):
        broker.state.apply(command, 0)
    broker.apply(SetOperatorPolicy("o", "^o", {"max-length": 2}, "queues", 5))
    broker.apply(SetParameter("federation-upstream", "f", {"uri": ["amqp://"]}))
    other = remade(broker)
    vhost = other.vhost
    assert (vhost.description, vhost.tags, vhost.default_queue_type) == (
        "of orders",
        ("a", "b"),
        "quorum",
    )
    # Declared before the default was set, it is what it was.
    assert vhost.queues["old"].queue_type is CLASSIC
    assert vhost.queues["old"].settings.max_length == 2
    assert [policy.name for policy in vhost.operator_policies.listed()] == ["o"]
    assert vhost.parameters == {("federation-upstream", "f"): {"uri": ["amqp://"]}}
    user = other.state.users.find("u")
    assert user is not None
    assert user.scram_keys == DEFAULT_USER_SCRAM_KEYS
    assert other.state.user_limits.of("u") == SetUserLimits("u", 3, 4)
    topic = other.state.topic_access.find("u", "/", "amq.topic")
    assert topic is not None
    assert (topic.write, topic.read) == ("^{username}", "r")
    assert other.state.global_parameters == {"cluster_name": "orders"}
