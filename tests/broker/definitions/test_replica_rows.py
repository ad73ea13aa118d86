"""Definitions with queues that are replicas of queues elsewhere."""

import pytest

from penstock.broker.definitions.exporting import export
from penstock.broker.queues.following import REPLICA_COMPONENT
from penstock.broker.replication_level import ReplicationLevel, ReplicationTest
from penstock.broker.state import BrokerState
from penstock.broker.topology import DeclareQueue, SetParameter
from tests.broker.definitions.definition_examples import apply, make_state, mistakes_of, queue

SOURCE = {"uri": "amqp://elsewhere/", "queue": "jobs"}
KNOWN = {**SOURCE, "incarnation": "one"}


def replica(value: object = SOURCE, name: str = "q") -> dict[str, object]:
    return {"vhost": "/", "component": REPLICA_COMPONENT, "name": name, "value": value}


def fresh() -> BrokerState:
    state = make_state()
    state.shared.keeps_replicas = True
    return state


def keeper(value: object = KNOWN) -> BrokerState:
    state = fresh()
    state.vhost("/").apply(SetParameter(REPLICA_COMPONENT, "q", value), 0)
    state.vhost("/").apply(DeclareQueue("q", durable=True), 0)
    return state


def followed(state: BrokerState) -> object:
    following = state.vhost("/").queue("q").following
    return None if following is None else following.value()


def test_an_export_of_replicas_can_be_imported() -> None:
    state = fresh()
    assert apply(state, export(keeper())) == []
    assert followed(state) == KNOWN
    assert list(state.shared.replicas.values()) == ["/"]


def test_the_rows_of_the_queue_and_of_its_source_may_be_in_different_files() -> None:
    state = fresh()
    apply(state, {"parameters": [replica()]})
    apply(state, {"queues": [queue("q")]})
    assert followed(state) == SOURCE


@pytest.mark.parametrize("value", [SOURCE, {**SOURCE, "incarnation": "older"}])
def test_a_replica_that_is_there_keeps_what_it_knows_of_its_source(value: object) -> None:
    state = keeper()
    assert apply(state, {"parameters": [replica(value)], "queues": [queue("q")]}) == []
    assert followed(state) == KNOWN


def test_a_queue_that_is_there_does_not_become_a_replica() -> None:
    state = fresh()
    state.vhost("/").apply(DeclareQueue("q", durable=True), 0)
    [found] = mistakes_of({"queues": [queue("q")], "parameters": [replica()]}, state)
    assert found.startswith("parameters[0]: queue 'q' in vhost '/' exists and is not a replica")
    assert followed(state) is None


def test_a_replica_does_not_change_its_source() -> None:
    state = keeper()
    [found] = mistakes_of({"parameters": [replica({**SOURCE, "queue": "others"})]}, state)
    assert "parameters[0]: queue 'q' in vhost '/' is a replica of queue 'jobs'" in found
    assert followed(state) == KNOWN


def test_a_stream_is_not_made_a_replica() -> None:
    stream = queue("q", arguments={"x-queue-type": "stream"})
    [found] = mistakes_of({"queues": [stream], "parameters": [replica()]}, fresh())
    assert found == "queues[0]: queue 'q' in vhost '/' cannot be a replica: it is a stream"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("amqp://elsewhere/", "must be an object"),
        ({"uri": "http://elsewhere/"}, "must have an amqp:// or amqps:// address as 'uri'"),
        ({**SOURCE, "prefetch": 1}, "has the unknown key 'prefetch'"),
    ],
)
def test_a_value_that_names_no_source_is_refused(value: object, reason: str) -> None:
    [found] = mistakes_of({"queues": [queue("q")], "parameters": [replica(value)]}, fresh())
    assert found.startswith("parameters[0]: ") and reason in found


def test_a_member_of_a_cluster_refuses_them() -> None:
    state = fresh()
    state.shared.replication = ReplicationTest(ReplicationLevel.ALL, is_replicated=True)
    [found] = mistakes_of({"queues": [queue("q")], "parameters": [replica()]}, state)
    assert "parameters[0]: queue 'q' in vhost '/' cannot be a replica: this server is a" in found
    assert "q" not in state.vhost("/").queues


def test_a_server_without_a_data_directory_refuses_them() -> None:
    [found] = mistakes_of({"queues": [queue("q")], "parameters": [replica()]}, make_state())
    assert found.startswith("parameters[0]: ")
    assert found.endswith("a server without a data directory cannot keep replicas")
