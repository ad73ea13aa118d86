"""Definitions come into a broker that has things already."""

from penstock.broker.topology import (
    DeclareExchange,
    DeclareQueue,
    SetPolicy,
    SetVhostLimits,
)
from tests.broker.definitions.definition_examples import (
    apply,
    binding,
    exchange,
    make_state,
    mistakes_of,
    policy,
    queue,
)


def test_what_exists_stays_as_it_is_with_a_warning() -> None:
    state = make_state()
    vhost = state.vhost("/")
    vhost.apply(DeclareQueue("q", durable=True, arguments={"x-max-length": 3}), 0)
    vhost.apply(DeclareExchange("e", "fanout"), 0)
    known = vhost.queues["q"]
    warnings = apply(
        state,
        {"queues": [queue("q")], "exchanges": [exchange("e")], "bindings": [binding("e", "q")]},
    )
    assert [warning.split(":")[0] for warning in warnings] == ["exchanges[0]", "queues[0]"]
    assert "already exists and is not changed: inequivalent arg 'x-max-length'" in warnings[1]
    assert vhost.queues["q"] is known
    assert vhost.exchanges["e"].kind == "fanout"
    assert len(vhost.bindings.listed()) == 1


def test_bindings_reach_what_was_there_before() -> None:
    state = make_state()
    vhost = state.vhost("/")
    vhost.apply(DeclareQueue("q"), 0)
    vhost.apply(DeclareExchange("e", "x-consistent-hash"), 0)
    vhost.apply(DeclareExchange("f", "fanout"), 0)
    found = mistakes_of({"bindings": [binding("e", "q", routing_key="weight")]}, state)
    assert len(found) == 1 and found[0].startswith("bindings[0]: ")
    to_exchange = binding("e", "f", routing_key="2", destination_type="exchange")
    assert apply(state, {"bindings": [binding("e", "q", routing_key="1"), to_exchange]}) == []
    assert len(vhost.bindings.listed()) == 2


def test_an_exclusive_queue_is_not_bound_by_definitions() -> None:
    state = make_state()
    state.vhost("/").apply(DeclareQueue("mine", exclusive=True, connection=5), 0)
    found = mistakes_of({"bindings": [binding("amq.direct", "mine")]}, state)
    assert found[0].startswith("bindings[0]: cannot obtain exclusive access")
    assert apply(state, {"queues": [queue("mine")]})[0].startswith(
        "queues[0]: already exists and is not changed"
    )


def test_a_binding_to_nothing_is_passed_over() -> None:
    """`rabbitmqctl export_definitions` of RabbitMQ 3.10 writes such bindings."""
    state = make_state()
    warnings = apply(state, {"queues": [queue("q")], "bindings": [binding("gone", "q")]})
    assert warnings == ["bindings[0]: ignored: no exchange 'gone' in vhost '/'"]


def test_policies_permissions_and_users_are_replaced() -> None:
    state = make_state()
    state.vhost("/").apply(SetPolicy("p", ".*", {"max-length": 9}), 0)
    everything = {"user": "guest", "vhost": "/", "configure": "a", "write": "b", "read": "c"}
    apply(state, {"policies": [policy()], "permissions": [everything]})
    assert [known.pattern for known in state.vhost("/").policies.listed()] == ["^q"]
    access = state.access.find("guest", "/")
    assert access is not None and access.configure == "a"


def limits_row(**limits: object) -> dict[str, object]:
    return {"vhost": "/", "component": "vhost-limits", "name": "limits", "value": limits}


def test_limits_come_last_so_that_a_full_vhost_can_be_imported() -> None:
    state = make_state()
    definitions = {
        "parameters": [limits_row(**{"max-queues": 1})],
        "queues": [queue("q"), queue("r")],
    }
    assert apply(state, definitions) == []
    assert state.vhost("/").max_queues == 1
    # Again into the vhost that is over its limit, and with one more.
    assert apply(state, {**definitions, "queues": [queue("s")]}) == []
    assert sorted(state.vhost("/").queues) == ["q", "r", "s"]


def test_a_limit_that_the_definitions_do_not_set_holds() -> None:
    state = make_state()
    state.vhost("/").apply(SetVhostLimits(max_queues=1), 0)
    found = mistakes_of({"queues": [queue("q"), queue("r")]}, state)
    assert found == ["queues: queue limit in vhost '/' (1) is reached"]
    assert apply(state, {"queues": [queue("q")]}) == []
    assert apply(state, {"queues": [queue("q")]}) == []
