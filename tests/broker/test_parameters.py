"""Parameters: kept under a component and a name, and what those of known components stand for."""

import pytest

from penstock.broker.errors import NotFound, PreconditionFailed
from penstock.broker.parameters import PARAMETERS_MAX, change_global_parameter, change_parameter
from penstock.broker.topology import (
    ClearGlobalParameter,
    ClearParameter,
    SetGlobalParameter,
    SetParameter,
)
from penstock.broker.vhost import VirtualHost
from tests.broker.store.doubles import Broker

UPSTREAM = {"uri": ["amqp://far"], "ack-mode": None}


@pytest.fixture
def vhost() -> VirtualHost:
    return Broker().vhost


def test_a_parameter_is_kept_until_it_is_cleared(vhost: VirtualHost) -> None:
    vhost.apply(SetParameter("federation-upstream", "far", UPSTREAM), 0)
    vhost.apply(SetParameter("federation-upstream", "none", None), 0)
    assert vhost.parameters[("federation-upstream", "far")] == UPSTREAM
    vhost.apply(ClearParameter("federation-upstream", "far"), 0)
    vhost.apply(ClearParameter("federation-upstream", "none"), 0)
    assert vhost.parameters == {}
    with pytest.raises(NotFound, match="no parameter 'far' of component 'federation-upstream' in"):
        vhost.apply(ClearParameter("federation-upstream", "far"), 0)


def test_limits_of_a_virtual_host_can_be_set_as_a_parameter(vhost: VirtualHost) -> None:
    vhost.apply(SetParameter("vhost-limits", "limits", {"max-queues": 5}), 0)
    assert (vhost.max_queues, vhost.max_connections) == (5, -1)
    vhost.apply(SetParameter("vhost-limits", "limits", {"max-connections": 3}), 0)
    assert (vhost.max_queues, vhost.max_connections) == (-1, 3)
    vhost.apply(ClearParameter("vhost-limits", "limits"), 0)
    assert (vhost.max_queues, vhost.max_connections) == (-1, -1)
    assert vhost.parameters == {}


def test_an_operator_policy_can_be_set_as_a_parameter(vhost: VirtualHost) -> None:
    value: dict[str, object] = {"pattern": "^q", "definition": {"max-length": 5}, "priority": 3}
    vhost.apply(SetParameter("operator_policy", "p", value), 0)
    [policy] = vhost.operator_policies.listed()
    assert (policy.name, policy.pattern, policy.priority) == ("p", "^q", 3)
    assert policy.definition == {"max-length": 5}
    vhost.apply(ClearParameter("operator_policy", "p"), 0)
    assert vhost.operator_policies.listed() == []
    assert vhost.parameters == {}


@pytest.mark.parametrize(
    ("component", "name", "value", "reason"),
    [
        ("policy", "p", {}, "policies may not be set using this method"),
        ("vhost-limits", "other", {}, "the name of the limits of a vhost must be 'limits'"),
        ("vhost-limits", "limits", [], "must be an object"),
        ("vhost-limits", "limits", {"frogs": 1}, "Unrecognised terms"),
        ("vhost-limits", "limits", {"max-queues": "1"}, "max-queues should be an integer"),
        ("vhost-limits", "limits", {"max-queues": True}, "max-queues should be an integer"),
        ("operator_policy", "p", {"definition": {}}, 'Key "pattern" is missing'),
        ("operator_policy", "p", {"pattern": "a"}, 'Key "definition" is missing'),
        (
            "operator_policy",
            "p",
            {"pattern": "a", "definition": {"max-length": 1}, "apply-to": 3},
            "apply-to should be a string",
        ),
        ("", "p", {}, "a component name must have 1 to 255 bytes"),
        ("c", "p" * 256, {}, "a parameter name must have 1 to 255 bytes"),
    ],
)
def test_a_parameter_that_cannot_be_is_refused_and_changes_nothing(
    vhost: VirtualHost, component: str, name: str, value: object, reason: str
) -> None:
    with pytest.raises(PreconditionFailed, match=reason):
        vhost.apply(SetParameter(component, name, value), 0)
    assert vhost.parameters == {}
    assert vhost.max_queues == -1


def test_policies_are_not_cleared_as_parameters_either(vhost: VirtualHost) -> None:
    with pytest.raises(PreconditionFailed, match="policies may not be set using this method"):
        vhost.apply(ClearParameter("policy", "p"), 0)


def test_a_global_parameter_is_any_json_value() -> None:
    broker = Broker()
    broker.state.apply(SetGlobalParameter("none", None), 0)
    broker.state.apply(SetGlobalParameter("cluster_name", "orders"), 0)
    assert broker.state.global_parameters == {"none": None, "cluster_name": "orders"}
    broker.state.apply(ClearGlobalParameter("none"), 0)
    with pytest.raises(NotFound, match="no global parameter 'none'"):
        broker.state.apply(ClearGlobalParameter("none"), 0)
    with pytest.raises(PreconditionFailed, match="must have 1 to 255 bytes"):
        broker.state.apply(SetGlobalParameter("", 1), 0)


def test_there_are_so_many_parameters_and_no_more() -> None:
    parameters: dict[tuple[str, str], object] = {
        ("c", str(number)): number for number in range(PARAMETERS_MAX)
    }
    change_parameter(parameters, SetParameter("c", "0", "again"), "v")
    with pytest.raises(PreconditionFailed, match="limit of 10000 parameters is reached"):
        change_parameter(parameters, SetParameter("c", "one more", 1), "v")
    named: dict[str, object] = {str(number): number for number in range(PARAMETERS_MAX)}
    change_global_parameter(named, SetGlobalParameter("0", "again"))
    with pytest.raises(PreconditionFailed, match="limit of 10000 parameters is reached"):
        change_global_parameter(named, SetGlobalParameter("one more", 1))
