"""How a backup becomes the root, and a root a backup: nothing is lost and nothing happens twice."""

from penstock.broker.leases.leases import LeaseRequest, find_lease, take_lease
from penstock.broker.publishing.publish import publish_resolved
from penstock.broker.publishing.target import target_by_keys
from penstock.broker.sinks.message_rows import rows_of
from penstock.broker.sinks.sinks import commit, stage
from penstock.broker.sinks.stages import StageKey
from penstock.broker.topology import BindQueue, DeclareExchange
from penstock.formats.replication_id import epoch_of, first_id
from tests.broker.store.doubles import message
from tests.ha.replica_doubles import Member, audit, joined, pair, ticked

# Becoming the root.


def test_a_new_root_delivers_what_it_had_as_redelivered_and_numbers_by_its_epoch() -> None:
    root, backup = pair()
    root.put("q", b"one", b"two")
    ticked(root, backup)
    backup.promote(2)
    backup.put("q", b"three")
    backup.declare("r")
    backup.tick()
    audit(backup)
    first, second, third = (backup.get("q") for _ in range(3))
    assert [entry.message.body for entry in (first, second, third)] == [b"one", b"two", b"three"]
    assert [entry.is_redelivered for entry in (first, second, third)] == [True, True, False]
    assert [epoch_of(entry.position) for entry in (first, second, third)] == [1, 1, 2]
    assert third.position == first_id(2)
    assert backup.vhost.queue("r").number == first_id(2)


def test_priorities_are_known_again_at_a_promotion() -> None:
    root, backup = pair()
    root.declare("p", x_max_priority=5)
    for number in range(40):
        root.put("p", b"%d" % number, priority=number % 6)
    ticked(root, backup)
    backup.promote(2)
    backup.tick()
    wanted = sorted(range(40), key=lambda number: (-(number % 6), number))
    assert backup.drain("p") == [b"%d" % number for number in wanted]


def test_a_delayed_message_waits_on_at_the_new_root() -> None:
    root, backup = pair()
    arguments: dict[str, object] = {"x-delayed-type": "fanout"}
    root.apply(DeclareExchange("late", "x-delayed-message", durable=True, arguments=arguments))
    root.apply(BindQueue("q", "late", ""))
    sent = message(b"later", exchange="late", headers={"x-delay": 500})
    routing = root.vhost.routing
    exchange = routing.exchanges["late"]
    target = target_by_keys(routing, exchange, sent.address, [""], sent.properties)
    publish_resolved(routing, target, sent, None, root.now)
    ticked(root, backup)
    assert backup.vhost.delay_line.waiting.count == 1
    assert backup.vhost.delay_line.octets == len(b"later")
    again = backup.restarted()
    again.promote(2)
    again.tick()
    assert again.vhost.queue("q").message_count == 0
    again.tick(1000)
    assert again.drain("q") == [b"later"]
    # And it comes only from there.
    backup.tick(1000)
    assert backup.vhost.queue("q").message_count == 0


def test_a_lease_expires_at_the_root_alone() -> None:
    root, backup = pair()
    root.put("q", b"1", b"2")
    ticked(root, backup)
    root.commit()
    take_lease(root.vhost, LeaseRequest("q", "job", 1, expires_ms=50), root.now)
    ticked(root, backup)
    assert find_lease(backup.vhost, "q", "job", 1).message_count == 2
    backup.tick(100)
    assert backup.vhost.queue("q").message_count == 0
    backup.promote(2)
    backup.tick()
    backup.tick()
    assert backup.drain("q") == [b"1", b"2"]


def test_a_new_root_publishes_what_a_sink_has_committed() -> None:
    root, backup = pair()
    rows = rows_of([message(b"%d" % number, key="q") for number in range(5)])
    stage(root.vhost, StageKey("job", 0, 0, 0), rows, root.now)
    ticked(root, backup)
    commit(root.vhost, "job", 0, [(0, 0, 5)], root.now)
    # Only the commit is written, and none of its steps.
    root.store.end_of_tick()
    backup.follow(root)
    backup.tick(100)
    assert backup.vhost.queue("q").message_count == 0
    backup.promote(2)
    for _ in range(10):
        backup.tick()
        backup.flushed()
    assert backup.drain("q") == [b"0", b"1", b"2", b"3", b"4"]


def test_a_root_that_steps_down_while_it_publishes_a_batch_has_all_of_it() -> None:
    root, _ = pair()
    root.declare("full", x_max_length=2, x_overflow="reject-publish")
    rows = rows_of([message(b"%d" % number, key="full") for number in range(5)])
    stage(root.vhost, StageKey("job", 0, 0, 0), rows, root.now)
    root.tick()
    commit(root.vhost, "job", 0, [(0, 0, 5)], root.now)
    for _ in range(5):
        root.tick()
        root.flushed()
    assert root.vhost.sinks["job"].taken
    before = root.digest()
    root.demote()
    audit(root)
    assert root.digest() == before
    root.tick(100)
    assert root.digest() == before
    root.promote(2)
    published = []
    for _ in range(10):
        root.tick(20)
        root.flushed()
        published += root.drain("full")
    assert published == [b"0", b"1", b"2", b"3", b"4"]


def test_the_first_operation_of_a_new_root_deletes_transient_queues() -> None:
    root, backup = pair()
    root.declare("t", durable=False)
    root.apply(DeclareExchange("x", "fanout"))
    root.apply(BindQueue("t", "x", ""))
    root.put("t", b"only here")
    ticked(root, backup)
    assert backup.vhost.queue("t").message_count == 0
    other = Member()
    joined(other, root)
    backup.promote(2)
    assert backup.stream.operations == []
    backup.tick()
    assert "t" not in backup.vhost.queues
    assert "x" in backup.vhost.exchanges
    joined(other, backup)
    assert other.digest() == backup.digest()


def test_the_first_root_makes_the_defaults_and_they_are_an_operation() -> None:
    root = Member()
    assert not root.state.vhosts
    root.promote(1)
    root.tick()
    assert len(root.stream.operations) == 1
    other = Member()
    joined(other, root)
    other.promote(2)
    other.tick()
    assert [user.name for user in other.state.users.listed()] == ["guest"]
    assert other.stream.operations == [], "nothing is made anew"


def test_a_promotion_after_any_prefix_is_a_restart_of_the_root_at_that_point() -> None:
    root, backup = pair()
    twins = [root.restarted()]
    for number in range(6):
        root.put("q", b"%d" % number)
        if number % 2:
            root.take("q")
        root.tick()
        twins.append(root.restarted())
    for end, twin in enumerate(twins, 1):
        if end > 1:
            backup.follow(root, end)
        other = backup.restarted()
        assert other.replica.syn() == twin.replica.syn()
        for member in (other, twin):
            member.promote(2)
            member.tick()
        assert other.digest() == twin.digest()
        assert other.drain("q") == twin.drain("q")


# Stepping down.


def test_a_root_that_steps_down_keeps_what_it_wrote_and_stops_its_timers() -> None:
    root, _ = pair()
    root.declare("dying", x_message_ttl=50)
    for number in range(40):
        root.put("q", b"%d" % number)
        root.put("dying", b"x")
    root.tick()
    root.get("q")
    root.tick()
    before = root.digest()
    octets = sum(len(b"%d" % number) for number in range(40))
    root.demote()
    audit(root)
    assert root.digest() == before
    assert root.vhost.queue("q").message_count == 40
    assert root.vhost.queue("q").ready_bytes == octets
    root.tick(10_000)
    assert root.digest() == before
    root.promote(2)
    root.tick()
    audit(root)
    assert root.drain("q") == [b"%d" % number for number in range(40)]
    assert root.vhost.queue("dying").message_count == 0


def test_queues_whose_messages_do_not_expire_are_known_as_such_after_a_change_of_roles() -> None:
    root, backup = pair()
    root.declare("dying", x_message_ttl=100_000)
    root.put("q", b"1")
    root.put("dying", b"2")
    ticked(root, backup)
    root.demote()
    for member in (root, backup):
        member.promote(2)
        queues = member.vhost.queues
        assert [queues[name].may_expire() for name in ("q", "dying")] == [False, True]
