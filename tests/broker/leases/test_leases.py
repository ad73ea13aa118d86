"""Leases: messages set apart under a name and a number until they are settled."""

import pytest

from penstock.broker.errors import NotFound, PreconditionFailed
from penstock.broker.internal_queues import LEASE_PREFIX
from penstock.broker.leases.lease_rows import encode_lease
from penstock.broker.leases.leases import (
    FULL_POLL_MS,
    MESSAGES_MAX,
    LeaseRequest,
    find_lease,
    give_back,
    leased,
    leases_of,
    number_of,
    settle_leases,
    take_lease,
    taken_at,
)
from penstock.broker.topology import DeclareQueue, SetPolicy, SetVhostLimits
from penstock.ha.id_setter import IdSetter
from tests.broker.store.doubles import WALL, Broker, message


def broker_with(*bodies: bytes) -> Broker:
    broker = Broker()
    broker.declare("q")
    broker.put("q", *bodies)
    broker.tick()
    return broker


def bodies(broker: Broker) -> list[bytes]:
    return [entry.message.body for entry in broker.vhost.queue("q").browse(100)]


def taken(broker: Broker, number: int, messages: int = MESSAGES_MAX) -> list[bytes]:
    """Bodies of a lease, taken now or before."""
    take_lease(broker.vhost, LeaseRequest("q", "job", number, messages), broker.now)
    broker.tick()
    lease = find_lease(broker.vhost, "q", "job", number)
    return [entry.message.body for entry in lease.browse(MESSAGES_MAX)]


def test_a_lease_sets_the_first_messages_apart_in_order() -> None:
    broker = broker_with(b"1", b"2", b"3")
    assert taken(broker, 1, messages=2) == [b"1", b"2"]
    assert bodies(broker) == [b"3"]


def test_asking_for_a_number_again_gives_the_same_messages() -> None:
    broker = broker_with(b"1", b"2", b"3")
    assert taken(broker, 1, messages=2) == taken(broker, 1, messages=3) == [b"1", b"2"]


def test_a_lease_is_there_after_a_restart_and_its_messages_in_one_place_only() -> None:
    broker = broker_with(*[b"%d" % number for number in range(40)])
    before = taken(broker, 1, messages=30)
    again = broker.restarted()
    assert taken(again, 1) == before
    assert bodies(again) == [b"%d" % number for number in range(30, 40)]


def test_settling_a_number_settles_all_up_to_it_and_once_more_changes_nothing() -> None:
    broker = broker_with(b"1", b"2", b"3")
    for number in (1, 2, 3):
        taken(broker, number, messages=1)
    assert settle_leases(broker.vhost, "q", "job", 2, broker.now) == 2
    assert settle_leases(broker.vhost, "q", "job", 2, broker.now) == 0
    broker.tick()
    again = broker.restarted()
    assert [number_of(lease) for lease in leases_of(again.vhost, "q", "job")] == [3]
    assert bodies(again) == []


def test_what_is_given_back_is_at_the_end_and_flagged() -> None:
    broker = broker_with(b"1", b"2", b"3")
    taken(broker, 1, messages=2)
    assert give_back(broker.vhost, "q", "job", 1, broker.now) == 2
    entries = broker.vhost.queue("q").browse(10)
    assert [entry.message.body for entry in entries] == [b"3", b"1", b"2"]
    assert [entry.is_redelivered for entry in entries] == [False, True, True]
    with pytest.raises(NotFound, match="settled, released, has expired, or never existed"):
        find_lease(broker.vhost, "q", "job", 1)
    taken(broker, 2)
    again = leased(find_lease(broker.vhost, "q", "job", 2), 0, 10)
    assert [entry.is_redelivered for entry in again] == [False, True, True]


def test_a_lease_is_read_alike_every_time_also_after_a_restart() -> None:
    broker = broker_with(*[b"%d" % number for number in range(30)])
    queue = broker.vhost.queue("q")
    entries = [broker.get("q") for _ in range(3)]
    queue.requeue(entries[1:2], broker.now)
    queue.acknowledge(entries[0])
    queue.acknowledge(entries[2])
    broker.out.clear()
    take_lease(broker.vhost, LeaseRequest("q", "job", 1), broker.now)
    taken = WALL + broker.now

    def rows(broker: Broker) -> bytes:
        lease = find_lease(broker.vhost, "q", "job", 1)
        assert taken_at(lease) == taken
        return encode_lease(leased(lease, 0, MESSAGES_MAX), taken_at(lease))

    first = rows(broker)
    broker.tick(60_000)
    assert rows(broker) == first
    again = broker.restarted()
    again.tick(60_000)
    assert rows(again) == first
    flags = [entry.is_redelivered for entry in leased(find_lease(again.vhost, "q", "job", 1), 0, 9)]
    assert flags == [True] + [False] * 8


def test_a_lease_that_a_root_of_a_cluster_has_filled_is_flagged_alike() -> None:
    broker = broker_with(b"1", b"2", b"3")
    IdSetter(broker.store).begin(4)
    broker.vhost.queue("q").requeue([broker.get("q"), broker.get("q")][1:], broker.now)
    broker.out.clear()
    take_lease(broker.vhost, LeaseRequest("q", "job", 1), broker.now)
    broker.tick()
    again = broker.restarted()
    IdSetter(again.store).begin(5)
    for known in (broker, again):
        entries = leased(find_lease(known.vhost, "q", "job", 1), 0, 9)
        assert [entry.is_redelivered for entry in entries] == [True, False]


def test_a_lease_that_cannot_be_made_leaves_the_messages_where_they_are() -> None:
    broker = broker_with(b"1", b"2", b"3")
    broker.apply(SetVhostLimits(max_queues=1))
    with pytest.raises(PreconditionFailed, match="queue limit"):
        take_lease(broker.vhost, LeaseRequest("q", "job", 1), broker.now)
    assert bodies(broker) == [b"1", b"2", b"3"]
    assert broker.vhost.queue("q").unacked_count == 0


def test_a_lease_whose_owner_does_not_come_back_expires_also_over_a_restart() -> None:
    broker = broker_with(b"1")
    take_lease(broker.vhost, LeaseRequest("q", "job", 1, expires_ms=5000), broker.now)
    broker.tick()
    again = broker.restarted()
    again.state.timers.fire_due(again.now + 4000)
    assert bodies(again) == []
    again.state.timers.fire_due(again.now + 5001)
    assert bodies(again) == [b"1"]


@pytest.mark.parametrize("expires_ms", [0, 100])
def test_what_a_full_queue_does_not_take_back_stays_in_its_lease(expires_ms: int) -> None:
    broker = Broker()
    limits: dict[str, object] = {"x-max-length": 2, "x-overflow": "reject-publish"}
    broker.apply(DeclareQueue("q", durable=True, arguments=limits))
    broker.put("q", b"1", b"2")
    take_lease(broker.vhost, LeaseRequest("q", "job", 1, expires_ms=expires_ms), broker.now)
    broker.put("q", b"3")
    if expires_ms:
        broker.state.timers.fire_due(broker.now + expires_ms)
    else:
        with pytest.raises(PreconditionFailed, match="is full: 1 messages of lease 1 of 'job'"):
            give_back(broker.vhost, "q", "job", 1, broker.now)
    assert (bodies(broker), taken(broker, 1)) == ([b"3", b"1"], [b"2"])
    broker.take("q", 2)
    if expires_ms:
        broker.state.timers.fire_due(broker.now + expires_ms + FULL_POLL_MS)
    else:
        assert give_back(broker.vhost, "q", "job", 1, broker.now) == 1
    assert (bodies(broker), leases_of(broker.vhost, "q", "job")) == ([b"2"], [])


def test_leased_messages_do_not_expire_and_no_policy_applies_to_them() -> None:
    broker = Broker()
    broker.declare("q")
    broker.vhost.queue("q").enqueue(message(b"1", expiration="100"), broker.now)
    broker.put("q", b"2")
    assert taken(broker, 1) == [b"1", b"2"]
    broker.apply(SetPolicy("short", ".*", {"max-length": 1}))
    broker.state.timers.fire_due(broker.now + 1000)
    assert taken(broker, 1) == [b"1", b"2"]


def test_octets_bound_a_lease_too() -> None:
    broker = broker_with(b"12345", b"12345", b"12345")
    facts = take_lease(broker.vhost, LeaseRequest("q", "job", 1, 10, octets=6), broker.now)
    assert (facts.messages, facts.octets) == (2, 10)


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (LeaseRequest("q", "", 1), "owner of a lease"),
        (LeaseRequest("q", "job", 0), "must be at least 1"),
        (LeaseRequest("q", "job", 1, 0), "at least one message"),
        (LeaseRequest("transient", "job", 1), "is not durable"),
        (LeaseRequest("stream", "job", 1), "is a stream"),
    ],
)
def test_what_cannot_be_leased_is_refused_with_the_reason(
    request_: LeaseRequest, text: str
) -> None:
    broker = broker_with(b"1")
    broker.declare("transient", durable=False)
    broker.apply(DeclareQueue("stream", durable=True, arguments={"x-queue-type": "stream"}))
    with pytest.raises(PreconditionFailed, match=text):
        take_lease(broker.vhost, request_, broker.now)
    assert not [name for name in broker.vhost.queues if name.startswith(LEASE_PREFIX)]
