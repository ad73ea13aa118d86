"""What else survives the root: it is killed in the middle of a transaction, a delay, a lease, a sink, an
expiry, a subscription. Each test kills it at several moments, or at the worst one.
"""

from __future__ import annotations

import pytest

from penstock.broker.leases.leases import LeaseRequest, find_lease, take_lease
from penstock.broker.sinks.message_rows import rows_of
from penstock.broker.sinks.sinks import commit, stage
from penstock.broker.sinks.stages import StageKey
from penstock.broker.topology import (
    AddVhost,
    PutUser,
    SetPermissions,
    SetPolicy,
    SetTopicPermissions,
    SetUserLimits,
    SetVhostLimits,
)
from penstock.client.errors import TransactionAborted, TransactionUnknown
from penstock.client.events import ChannelClosed
from penstock.dialects.amqp10.nodes.filters import described_selector
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.amqp091.content import BasicProperties
from penstock.wire.amqp10.performatives_generated import (
    Accepted,
    Coordinator,
    Data,
    Discharge,
    Source,
    Target,
)
from tests.broker.store.doubles import message
from tests.ha.amqp10_client import client_of_root
from tests.seeds.cluster_doubles import Cluster, SimulatedClient
from tests.seeds.watched_host import WatchedHost

# Microseconds after the last word of a client: before it has arrived, while its operation is written and
# sent, and after its answer.
MOMENTS = (0, 600, 1200, 2000, 4000, 8000, 20_000)


def killed(cluster: Cluster, microseconds: int = 0) -> WatchedHost:
    """The next root."""
    cluster.clock.run(microseconds)
    cluster.hosts[cluster.roots()[0]].die()
    root = cluster.elected()
    cluster.settle()
    return root


def contents(cluster: Cluster, *queues: str) -> list[list[bytes]]:
    """The same on all servers that are up."""
    found = [[cluster.hosts[name].bodies(queue) for queue in queues] for name in cluster.up()]
    assert all(each == found[0] for each in found)
    assert cluster.are_equal()
    return found[0]


def with_queues(cluster: Cluster, *queues: str, confirms: bool = True) -> SimulatedClient:
    client = cluster.client(confirms=confirms)
    for queue in queues:
        client.call(m.QueueDeclare(queue, durable=True))
    return client


def transaction_error(cluster: Cluster, client: SimulatedClient) -> Exception | None:
    # It may have to miss heartbeats first.
    cluster.until(lambda: client.is_ended)
    closed = [event for event in client.events if isinstance(event, ChannelClosed)]
    return closed[-1].transaction


# Transactions.


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_transaction_is_committed_as_a_whole_or_not_at_all(moment: int) -> None:
    """A publisher that lost the answer to its commit is told that nobody knows."""
    cluster = Cluster()
    client = with_queues(cluster, "p", "q", "old", confirms=False)
    client.publish("old", b"old")
    got = client.call(m.BasicGet("old"))
    while got is None or got.message is None:
        got = client.call(m.BasicGet("old"))
    client.call(m.TxSelect())
    for number in range(5):
        client.publish("p", b"p%d" % number)
        client.publish("q", b"q%d" % number)
    client.tell(m.BasicAck(got.message.delivery_tag))
    client.ask(m.TxCommit())
    killed(cluster, moment)
    committed = bool(client.replies(m.TxCommitOk))
    after = contents(cluster, "p", "q", "old")
    everything = [[b"%s%d" % (queue, number) for number in range(5)] for queue in (b"p", b"q")]
    assert after in ([*everything, []], [[], [], [b"old"]])
    if committed:
        assert after == [*everything, []]
    else:
        assert isinstance(transaction_error(cluster, client), TransactionUnknown)


def test_a_transaction_without_a_commit_is_aborted() -> None:
    """A47 of Qpid's tests: failover inside a transaction, all brokers rolled back."""
    cluster = Cluster()
    client = with_queues(cluster, "q", confirms=False)
    client.call(m.TxSelect())
    client.publish("q", b"never")
    client.call(m.BasicQos())
    killed(cluster)
    assert isinstance(transaction_error(cluster, client), TransactionAborted)
    assert contents(cluster, "q") == [[]]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_transaction_of_the_coordinator_is_committed_as_a_whole_or_not_at_all(
    moment: int,
) -> None:
    cluster = Cluster()
    with_queues(cluster, "p", "q", "old").confirmed_publish("old", b"old")
    client = client_of_root(cluster, "transactor")
    coordinator = client.sender("coordinator", Coordinator())
    taken, _ = client.receiver("old", Source("/queues/old"))
    cluster.until(lambda: taken.bodies == [b"old"])
    txn_id = client.declare(coordinator)
    for queue in ("p", "q"):
        link = client.sender(queue, Target(f"/queues/{queue}"))
        for number in range(3):
            client.post(link, txn_id, b"%s%d" % (queue.encode(), number))
    client.retire(txn_id, taken.ids[0])
    discharge = client.ask(coordinator, Discharge(txn_id))
    killed(cluster, moment)
    after = contents(cluster, "p", "q", "old")
    everything = [
        [Data(b"%s%d" % (queue, number)).encode() for number in range(3)] for queue in (b"p", b"q")
    ]
    assert after in ([*everything, []], [[], [], [b"old"]])
    if isinstance(discharge.outcome, Accepted):
        assert after == [*everything, []]


# What waits for its time.


def test_delayed_messages_wait_on_at_the_new_root() -> None:
    cluster = Cluster()
    client = with_queues(cluster, "q")
    arguments: dict[str, object] = {"x-delayed-type": "fanout"}
    client.call(m.ExchangeDeclare("late", "x-delayed-message", durable=True, arguments=arguments))
    client.call(m.QueueBind("q", "late"))
    for number, delay in enumerate((1000, 8000, 9000)):
        properties = BasicProperties(headers={"x-delay": delay})
        client.publish_with("", b"%d" % number, properties, exchange="late")
    cluster.until(lambda: len(client.confirmed) == 3)
    cluster.run(2)
    assert contents(cluster, "q") == [[b"0"]]
    killed(cluster)
    assert contents(cluster, "q") == [[b"0"]]
    cluster.run(10)
    cluster.settle()
    assert contents(cluster, "q") == [[b"0", b"1", b"2"]]
    # And nothing is published again by the next one.
    cluster.hosts["a"].revive()
    cluster.elected()
    killed(cluster)
    cluster.run(10)
    assert contents(cluster, "q") == [[b"0", b"1", b"2"]]


def test_a_lease_is_held_until_it_expires_at_the_new_root() -> None:
    cluster = Cluster()
    client = with_queues(cluster, "q")
    client.confirmed_publish("q", b"1", b"2")
    root = cluster.elected()
    vhost = root.node.state.vhost("/")
    take_lease(vhost, LeaseRequest("q", "job", 1, expires_ms=6000), root.now())
    root.schedule_flush()
    cluster.settle()
    root = killed(cluster)
    vhost = root.node.state.vhost("/")
    assert find_lease(vhost, "q", "job", 1).message_count == 2
    assert contents(cluster, "q") == [[]]
    cluster.run(8)
    cluster.settle()
    assert contents(cluster, "q") == [[b"1", b"2"]]


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_batch_of_a_sink_is_published_once(moment: int) -> None:
    cluster = Cluster()
    with_queues(cluster, "q")
    root = cluster.elected()
    vhost = root.node.state.vhost("/")
    rows = rows_of([message(b"%d" % number, key="q") for number in range(20)])
    stage(vhost, StageKey("job", 0, 0, 0), rows, root.now())
    root.schedule_flush()
    cluster.settle()
    commit(vhost, "job", 0, [(0, 0, 20)], root.now())
    root.schedule_flush()
    root = killed(cluster, moment)
    cluster.run(2)
    cluster.settle()
    vhost = root.node.state.vhost("/")
    published = contents(cluster, "q")[0]
    if not published:
        # The commit was lost with its root: the job repeats it, as it does without an answer.
        commit(vhost, "job", 0, [(0, 0, 20)], root.now())
        root.schedule_flush()
        cluster.run(2)
        cluster.settle()
        published = contents(cluster, "q")[0]
    assert published == [b"%d" % number for number in range(20)]


# What dies.


def dying(cluster: Cluster, **arguments: object) -> SimulatedClient:
    client = with_queues(cluster, "dead")
    table: dict[str, object] = {
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
        **{name.replace("_", "-"): value for name, value in arguments.items()},
    }
    client.call(m.QueueDeclare("q", durable=True, arguments=table))
    return client


@pytest.mark.parametrize("moment", range(0, 400_000, 60_000))
def test_messages_that_expire_are_dead_lettered_once(moment: int) -> None:
    cluster = Cluster()
    client = dying(cluster)
    bodies = [b"%d" % number for number in range(20)]
    for number, body in enumerate(bodies):
        properties = BasicProperties(expiration=str(100 + 10 * number))
        client.publish_with("q", body, properties)
    cluster.until(lambda: len(client.confirmed) == 20)
    killed(cluster, moment)
    cluster.run(1)
    cluster.settle()
    assert contents(cluster, "q", "dead") == [[], bodies]


@pytest.mark.parametrize("moment", MOMENTS)
def test_messages_beyond_a_limit_and_rejected_ones_are_dead_lettered_once(moment: int) -> None:
    cluster = Cluster()
    client = dying(cluster, x_max_length=5)
    client.confirmed_publish("q", *[b"%d" % number for number in range(5)])
    got = client.call(m.BasicGet("q"))
    assert got is not None and got.message is not None
    client.tell(m.BasicReject(got.message.delivery_tag, requeue=False))
    client.publish("q", *[b"%d" % number for number in range(5, 12)])
    killed(cluster, moment)
    kept, dead = contents(cluster, "q", "dead")
    assert len(kept) <= 5
    found = sorted([int(body) for body in kept + dead])
    assert len(set(found)) == len(found), "a message is in one place"
    assert found == list(range(len(found)))
    assert {int(body) for body in client.confirmed if isinstance(body, bytes)} <= set(found)


# AMQP 1.0.


def test_a_durable_subscription_and_its_selector_outlive_the_root() -> None:
    cluster = Cluster()
    subscriber = client_of_root(cluster, "subscriber")
    selector: dict[str, object] = {"selector": described_selector("colour = 'red'")}
    source = Source("/exchanges/amq.fanout", durable=1, expiry_policy="never", filter_=selector)
    subscriber.receiver("news", source)
    publisher = client_of_root(cluster, "publisher")
    link = publisher.sender("news", Target("/exchanges/amq.fanout"))
    publisher.send(link, b"blue", colour="blue")
    sent = publisher.send(link, b"red", colour="red")
    cluster.until(lambda: isinstance(sent.outcome, Accepted))
    killed(cluster)
    # While nobody is attached, it goes on.
    publisher = client_of_root(cluster, "publisher")
    link = publisher.sender("news", Target("/exchanges/amq.fanout"))
    publisher.send(link, b"green", colour="green")
    sent = publisher.send(link, b"red again", colour="red")
    cluster.until(lambda: isinstance(sent.outcome, Accepted))
    subscriber = client_of_root(cluster, "subscriber")
    taken, answer = subscriber.receiver("news", source)
    assert isinstance(answer.source, Source) and answer.source.filter_
    cluster.until(lambda: len(taken.bodies) == 2)
    cluster.run(1)
    assert taken.bodies == [b"red", b"red again"]


def test_links_that_a_root_kept_for_later_are_forgotten_with_it() -> None:
    """As after a restart: what their consumers held is ready again, and flagged."""
    cluster = Cluster()
    with_queues(cluster, "q").confirmed_publish("q", b"one")
    source = Source("/queues/q", expiry_policy="connection-close", timeout=60)
    client = client_of_root(cluster, "reader")
    taken, _ = client.receiver("kept", source)
    cluster.until(lambda: taken.bodies == [b"one"])
    assert taken.received[0].header.first_acquirer
    killed(cluster)
    cluster.until(lambda: client.is_over)
    client = client_of_root(cluster, "reader")
    taken, answer = client.receiver("kept", source)
    assert not answer.unsettled
    cluster.until(lambda: taken.bodies == [b"one"])
    assert not taken.received[0].header.first_acquirer
    client.accept(taken.ids[0])
    cluster.run(1)
    assert contents(cluster, "q") == [[]]


def test_the_delivery_count_of_a_classic_queue_continues() -> None:
    """Which AMQP 1.0 shows for queues of every type."""
    cluster = Cluster()
    client = with_queues(cluster, "q")
    client.confirmed_publish("q", b"one")
    for _ in range(2):
        got = client.call(m.BasicGet("q"))
        assert got is not None and got.message is not None
        client.tell(m.BasicNack(got.message.delivery_tag, requeue=True))
        client.call(m.BasicQos())
        cluster.settle()
    killed(cluster)
    taken, _ = client_of_root(cluster, "reader").receiver("r", Source("/queues/q"))
    cluster.until(lambda: taken.bodies == [b"one"])
    assert taken.received[0].header.delivery_count == 2


# Definitions.


def test_users_permissions_policies_limits_and_virtual_hosts_outlive_the_root() -> None:
    """The moment a change is committed, the next root has it."""
    cluster = Cluster()
    root = cluster.elected()
    node, now = root.node, root.now()
    node.apply(AddVhost("other", "described", ("a", "b")), now)
    node.apply(PutUser("alice", "", ("monitoring",)), now)
    node.apply(SetPermissions("alice", "other", "^a", "^b", "^c"), now)
    node.apply(SetTopicPermissions("alice", "other", "amq.topic", "^d", "^e"), now)
    node.apply(SetUserLimits("alice", 3, 4), now)
    node.apply_to_vhost("other", SetVhostLimits(5, 6), now)
    node.apply_to_vhost("other", SetPolicy("short", "^q", {"max-length": 3}), now)
    root.schedule_flush()
    cluster.settle()
    before = cluster.definitions(root.name)
    root = killed(cluster)
    assert cluster.definitions(root.name) == before
    assert cluster.have_same_definitions()
    state = root.node.state
    assert [user.name for user in state.users.listed()] == ["guest", "alice"]
    other = state.vhost("other")
    assert (other.max_queues, other.max_connections, other.tags) == (5, 6, ("a", "b"))
