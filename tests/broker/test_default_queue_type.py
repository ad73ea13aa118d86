"""Queues that are declared without a type, where the operator has set one."""

import pytest

from penstock.broker.arguments import CLASSIC, QUORUM, STREAM, TYPE_ARGUMENT, QueueType
from penstock.broker.errors import PreconditionFailed
from penstock.broker.internal_queues import LEASE_OF, LEASE_PREFIX
from penstock.broker.topology import AddVhost, DeclareQueue
from tests.broker.store.doubles import Broker


@pytest.fixture
def broker() -> Broker:
    return Broker()


def describe(broker: Broker, queue_type: str) -> None:
    broker.state.apply(AddVhost("/", default_queue_type=queue_type), 0)


@pytest.mark.parametrize("queue_type", [CLASSIC, QUORUM, STREAM])
def test_a_queue_without_a_type_gets_the_default(broker: Broker, queue_type: QueueType) -> None:
    describe(broker, queue_type.value)
    broker.vhost.apply(DeclareQueue("q", durable=True, arguments={"x": 1}), 0)
    queue = broker.vhost.queue("q")
    assert queue.queue_type is queue_type
    assert queue.arguments == {"x": 1, TYPE_ARGUMENT: queue_type.value}


def test_a_queue_with_a_type_keeps_it(broker: Broker) -> None:
    describe(broker, "quorum")
    broker.vhost.apply(DeclareQueue("q", True, arguments={TYPE_ARGUMENT: "classic"}), 0)
    assert broker.vhost.queue("q").queue_type is CLASSIC


@pytest.mark.parametrize(
    "command",
    [
        DeclareQueue("q"),
        DeclareQueue("q", durable=True, exclusive=True, connection=3),
        DeclareQueue("q", durable=True, auto_delete=True),
        DeclareQueue(
            f"{LEASE_PREFIX}1", durable=True, arguments={LEASE_OF: "q"}, server_named=True
        ),
    ],
)
def test_a_queue_that_cannot_be_of_the_type_is_classic(
    broker: Broker, command: DeclareQueue
) -> None:
    describe(broker, "quorum")
    broker.vhost.apply(command, 0)
    queue = broker.vhost.queue(command.name)
    assert queue.queue_type is CLASSIC
    assert TYPE_ARGUMENT not in queue.arguments


def test_declaring_again_without_a_type_means_the_same_queue(broker: Broker) -> None:
    declare = DeclareQueue("q", durable=True)
    broker.vhost.apply(declare, 0)
    describe(broker, "quorum")
    # Declared before there was a default.
    broker.vhost.apply(declare, 0)
    broker.vhost.apply(DeclareQueue("r", durable=True), 0)
    broker.vhost.apply(DeclareQueue("r", durable=True), 0)
    describe(broker, "stream")
    broker.vhost.apply(DeclareQueue("r", durable=True), 0)
    assert broker.vhost.queue("r").queue_type is QUORUM
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'x-queue-type'"):
        broker.vhost.apply(DeclareQueue("r", True, arguments={TYPE_ARGUMENT: "classic"}), 0)


def test_what_has_no_default_is_classic_again(broker: Broker) -> None:
    describe(broker, "quorum")
    describe(broker, "")
    broker.vhost.apply(DeclareQueue("q", durable=True), 0)
    assert broker.vhost.queue("q").queue_type is CLASSIC


def test_a_type_that_does_not_exist_cannot_be_the_default(broker: Broker) -> None:
    with pytest.raises(PreconditionFailed, match="'frogs' is not a valid default queue type"):
        broker.state.apply(AddVhost("/", "changed", default_queue_type="frogs"), 0)
    with pytest.raises(PreconditionFailed, match="'frogs' is not a valid default queue type"):
        broker.state.apply(AddVhost("v", default_queue_type="frogs"), 0)
    assert broker.vhost.description == ""
    assert "v" not in broker.state.vhosts


def test_types_stay_what_they_were_after_a_restart(broker: Broker) -> None:
    broker.vhost.apply(DeclareQueue("old", durable=True), 0)
    describe(broker, "quorum")
    broker.vhost.apply(DeclareQueue("new", durable=True), 0)
    broker.rest()
    again = broker.restarted()
    assert again.vhost.default_queue_type == "quorum"
    assert again.vhost.queue("old").queue_type is CLASSIC
    assert again.vhost.queue("new").queue_type is QUORUM
