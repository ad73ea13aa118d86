"""What is recorded of definitions: durable objects, and in a cluster shared transient ones too."""

from penstock.broker.store.definition_records import encode_change, snapshot_of
from penstock.broker.topology import (
    BindExchange,
    BindQueue,
    ChangeQueueArguments,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    UnbindQueue,
)
from tests.broker.store.doubles import Broker
from tests.broker.store.operation_doubles import KeptOperations, root_of

CONNECTION = 7


def with_transient_objects(broker: Broker) -> None:
    broker.apply(DeclareExchange("kept", "direct", durable=True))
    broker.apply(DeclareExchange("passing", "direct", durable=False))
    broker.declare("durable")
    broker.declare("shared", durable=False)
    broker.apply(DeclareQueue("own", durable=True, exclusive=True, connection=CONNECTION))
    broker.apply(BindQueue("shared", "kept", "a"))
    broker.apply(BindQueue("durable", "passing", "b"))
    broker.apply(BindQueue("own", "kept", "c", connection=CONNECTION))
    broker.apply(BindExchange("passing", "kept", "d"))
    broker.tick()


def bound(broker: Broker) -> list[str]:
    return sorted([binding.routing_key for binding in broker.vhost.bindings.listed()])


def named(broker: Broker) -> list[str]:
    exchanges = [name for name in broker.vhost.exchanges if name in {"kept", "passing"}]
    return sorted([*exchanges, *broker.vhost.queues])


def test_alone_a_server_keeps_what_is_durable() -> None:
    broker = Broker()
    with_transient_objects(broker)
    again = broker.restarted()
    assert named(again) == ["durable", "kept"]
    assert bound(again) == []


def test_a_member_of_a_cluster_keeps_shared_transient_objects_too() -> None:
    broker, _ = root_of(1)
    with_transient_objects(broker)
    again = broker.restarted()
    assert named(again) == ["durable", "kept", "passing", "shared"]
    assert bound(again) == ["a", "b", "d"]
    assert not again.vhost.queue("shared").durable
    assert not again.vhost.exchanges["passing"].durable
    assert [encode_change(change) for change in snapshot_of(again.state, [])] == [
        encode_change(change) for change in snapshot_of(broker.state, [])
    ]


def test_a_member_forgets_what_was_deleted_unbound_or_changed() -> None:
    broker, _ = root_of(1)
    with_transient_objects(broker)
    broker.declare("gone", durable=False)
    broker.apply(BindQueue("gone", "passing", "e"))
    broker.tick()
    broker.apply(UnbindQueue("durable", "passing", "b"))
    broker.apply(ChangeQueueArguments("shared", {"x-max-length": 5}))
    broker.apply(DeleteQueue("gone"))
    broker.tick()
    again = broker.restarted()
    assert bound(again) == ["a", "d"]
    assert again.vhost.queue("shared").arguments == {"x-max-length": 5}
    assert "gone" not in again.vhost.queues
    broker.apply(DeleteExchange("passing"))
    broker.tick()
    last = broker.restarted()
    assert bound(last) == ["a"]
    assert "passing" not in last.vhost.exchanges


def test_messages_of_transient_queues_are_not_journalled_in_a_cluster_either() -> None:
    broker, kept = root_of(1)
    with_transient_objects(broker)
    count = len(kept.operations)
    broker.put("shared", b"m")
    broker.tick()
    assert broker.vhost.queue("shared").number == 0
    assert len(kept.operations) == count
    again = broker.restarted()
    assert again.vhost.queue("shared").message_count == 0


def test_exclusive_queues_are_never_recorded() -> None:
    broker, kept = root_of(1)
    count = len(kept.operations)
    broker.apply(DeclareQueue("own", exclusive=True, connection=CONNECTION))
    broker.apply(BindQueue("own", "amq.direct", "k", connection=CONNECTION))
    broker.apply(UnbindQueue("own", "amq.direct", "k", connection=CONNECTION))
    broker.apply(DeleteQueue("own", connection=CONNECTION))
    broker.tick()
    assert len(kept.operations) == count


def test_a_member_begins_with_nothing_and_the_first_roots_defaults_are_an_operation() -> None:
    broker = Broker(is_member=True)
    broker.store.operations = kept = KeptOperations(1)
    broker.tick()
    assert not broker.state.vhosts
    assert not broker.state.users.listed()
    assert not kept.operations
    root, told = root_of(1)
    assert len(told.operations) == 1
    assert b"PutUser" in told.operations[0]
    assert "/" in root.restarted().state.vhosts


def test_a_server_alone_begins_with_the_defaults() -> None:
    assert "/" in Broker().state.vhosts
