"""Definitions of an operation that cannot be applied end the line before the journal has them."""

import pytest

from penstock.broker.store import records
from penstock.broker.store.definition_records import Change, encode_change
from penstock.broker.topology import (
    AddVhost,
    BindQueue,
    BrokerCommand,
    ChangeQueueArguments,
    ChangeStream,
    ClearGlobalParameter,
    ClearParameter,
    ClearPolicy,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DeleteUser,
    DeleteVhost,
    NoteConsumer,
    NoteReturns,
    NumberFrom,
    OpenDelayLine,
    PutUser,
    SetOperatorPolicy,
    SetParameter,
    SetPermissions,
    SetPolicy,
    SetVhostLimits,
    VhostCommand,
)
from penstock.ha import messages
from tests.ha.replica_doubles import Member, audit
from tests.ha.stored_members import Follower, Root

NEW = 1 << 50
STREAM: dict[str, object] = {"x-queue-type": "stream"}


def followed(*commands: VhostCommand) -> Follower:
    """A backup that has what its root has: two queues, a stream, an exchange, and the rest."""
    root = Root(Member(), 1, ["b"])
    member = root.member
    member.declare("q")
    member.declare("many")
    member.declare("log", x_queue_type="stream")
    member.apply(DeclareExchange("fan", "fanout", durable=True))
    member.apply(SetPolicy("p", "^many$", {"max-length": 9}))
    for command in commands:
        member.apply(command)
    member.put("many", b"1", b"2")
    follower = Follower("b", Member(), root)
    follower.catch_up()
    assert follower.member.digest() == member.digest()
    return follower


def operation(follower: Follower, *changes: Change) -> bytes:
    """What a root would send that had made these changes."""
    pieces: list[bytes] = []
    for change in changes:
        records.append_text(pieces, records.DEFINITION, encode_change(change))
    epoch, k = follower.member.replica.syn()
    content = records.operation_record(epoch, k + 1, len(b"".join(pieces))) + b"".join(pieces)
    checksum = messages.operation_checksum([content])
    return messages.encode_operation_head(epoch, k + 1, k, checksum) + content


def change_of(command: VhostCommand | BrokerCommand, number: int = 0) -> Change:
    return Change(None if isinstance(command, BrokerCommand) else "/", command, number)


def say(follower: Follower, *changes: Change) -> str:
    """A fake root sends them; returns why the line has ended."""
    octets = operation(follower, *changes)
    follower.backup.received(messages.OP, octets, follower.member.now)
    return follower.up.reason


def refuse(follower: Follower, reason: str, *changes: Change) -> Member:
    """Returns the backup as it is after a restart."""
    member = follower.member
    before = (member.digest(), member.journal.position, member.replica.syn())
    assert reason in say(follower, *changes)
    assert not follower.backup.is_following
    assert (member.digest(), member.journal.position, member.replica.syn()) == before
    audit(member)
    member.flushed()
    again = member.restarted()
    assert again.digest() == before[0]
    return again


def refuse_and_go_on(follower: Follower, reason: str, *changes: Change) -> None:
    again = refuse(follower, reason, *changes)
    # The true root, which has not made these changes, goes on with it.
    follower.root.member.declare("later")
    follower.root.primary.line_lost("b")
    back = Follower("b", again, follower.root)
    back.catch_up()
    assert again.digest() == follower.root.member.digest()


BAD: list[tuple[str, VhostCommand | BrokerCommand, int]] = [
    ("a vhost that is not there", DeleteVhost("missing"), 0),
    ("a user that is not there", DeleteUser("nobody"), 0),
    ("rights of nobody", SetPermissions("nobody", "/", "", "", ""), 0),
    ("rights in no vhost", SetPermissions("guest", "missing", "", "", ""), 0),
    ("a hash that is none", PutUser("new", "no hash"), 0),
    ("a parameter that is not there", ClearGlobalParameter("missing"), 0),
    ("a default type that is none", AddVhost("/", "", (), "unknown"), 0),
    ("an epoch of a server on its own", NumberFrom(7), 0),
    ("a vhost with a number", AddVhost("v"), NEW),
    ("a queue that is there and differs", DeclareQueue("q", durable=False), 0),
    ("a queue that is there, again", DeclareQueue("q", durable=True), NEW),
    ("a queue that lasts without a number", DeclareQueue("new", durable=True), 0),
    ("a transient queue with a number", DeclareQueue("new"), NEW),
    ("a passive declaration", DeclareQueue("new", durable=True, passive=True), NEW),
    ("a queue of a connection", DeclareQueue("new", exclusive=True, connection=4), 0),
    ("a reserved name", DeclareQueue("amq.new", durable=True), NEW),
    ("a type that is none", DeclareQueue("n", durable=True, arguments={"x-queue-type": "?"}), NEW),
    ("a deletion with a condition", DeleteQueue("many", if_empty=True), 0),
    ("a deletion with another condition", DeleteExchange("fan", if_unused=True), 0),
    ("a predeclared exchange", DeleteExchange("amq.direct"), 0),
    ("an exchange that differs", DeclareExchange("fan", "direct", durable=True), 0),
    ("a kind that is none", DeclareExchange("new", "unknown", durable=True), 0),
    ("a binding to nothing", BindQueue("missing", "fan"), 0),
    ("a binding from nothing", BindQueue("q", "missing"), 0),
    ("arguments of no queue", ChangeQueueArguments("missing", {"x-max-length": 1}), 0),
    ("arguments that cannot be", ChangeQueueArguments("q", {"x-max-length": "many"}), 0),
    ("a pattern that is none", SetPolicy("new", "(", {"max-length": 1}), 0),
    ("a policy that is not there", ClearPolicy("missing"), 0),
    ("a key that is none", SetOperatorPolicy("new", "", {"alternate-exchange": "fan"}), 0),
    ("a parameter that is not there, either", ClearParameter("c", "missing"), 0),
    ("a policy as a parameter", SetParameter("policy", "p", {}), 0),
    ("limits as a parameter", SetParameter("vhost-limits", "limits", {"max-queues": 1}), 0),
    ("a note of no queue", NoteConsumer("missing"), 0),
    ("returns to no queue", NoteReturns("missing", ((1, 1, 1),)), 0),
    ("epochs without offsets", ChangeStream("log", {}, {}, {}, 0, (1, 2), (0,)), 0),
    ("a delay line without a number", OpenDelayLine(), 0),
]


@pytest.mark.parametrize(
    ("command", "number"),
    [(one, number) for _, one, number in BAD],
    ids=[name for name, _, _ in BAD],
)
def test_a_definition_that_cannot_be_applied_ends_the_line_and_is_not_kept(
    command: VhostCommand | BrokerCommand, number: int
) -> None:
    name = type(command).__name__
    refuse_and_go_on(
        followed(), f"{name} in the definitions of an operation", change_of(command, number)
    )


def test_nothing_of_an_operation_is_kept_whose_last_definition_cannot_be_applied() -> None:
    good = change_of(DeclareQueue("new", durable=True), NEW)
    gone = change_of(DeleteQueue("many"))
    bad = change_of(BindQueue("many", "fan"))
    refuse_and_go_on(followed(), "BindQueue in the definitions", good, gone, bad)


def test_a_number_is_given_once() -> None:
    first = change_of(DeclareQueue("one", durable=True), NEW)
    refuse(followed(), "two queues with number", first, change_of(DeclareQueue("two", True), NEW))
    follower = followed()
    number = follower.member.vhost.queue("log").number
    stream = DeclareQueue("new", durable=True, arguments=STREAM)
    refuse(follower, f"second queue is to have number {number}", change_of(stream, number))


def test_a_delay_line_is_opened_once() -> None:
    line = change_of(OpenDelayLine(), NEW)
    refuse(followed(), "OpenDelayLine", line, change_of(OpenDelayLine(), NEW + 1))
    follower = followed()
    assert say(follower, line) == ""
    refuse(follower, "OpenDelayLine", change_of(OpenDelayLine(), NEW + 1))


@pytest.mark.parametrize("name", ["q", "many"])
def test_a_limit_of_queues_counts_those_that_the_operation_does_not_name(name: str) -> None:
    follower = followed(SetVhostLimits(max_queues=3))
    new, other = (change_of(DeclareQueue(one, True), NEW + at) for at, one in enumerate("xy"))
    assert say(follower, change_of(DeleteQueue(name)), new) == ""
    refuse(follower, "queue limit in vhost '/' (", other)


def test_a_limit_that_the_operation_sets_counts_them_too() -> None:
    limits = change_of(SetVhostLimits(max_queues=4))
    new, other = (change_of(DeclareQueue(one, True), NEW + at) for at, one in enumerate("xy"))
    assert say(followed(), limits, new) == ""
    refuse(followed(), "DeclareQueue", limits, new, other)


def test_what_a_root_may_do_in_one_operation_is_applied() -> None:
    follower = followed()
    changes = [
        change_of(DeleteQueue("q")),
        change_of(DeclareQueue("q", durable=True, arguments=STREAM), NEW),
        change_of(ChangeStream("q", {"cursor": 3}, {"publisher": 4}, {})),
        change_of(DeclareExchange("new", "x-consistent-hash", durable=True)),
        change_of(BindQueue("q", "new", "3")),
        change_of(BindQueue("many", "new", "4")),
        change_of(SetPolicy("p", "^many$", {"max-length": 8}, "queues", 4)),
        change_of(ClearPolicy("p")),
        change_of(NoteReturns("many", ((1, 2, 3),))),
        change_of(PutUser("new", "", ("management",))),
        change_of(AddVhost("v", "described", ("tag",), "quorum")),
        change_of(SetPermissions("new", "v", ".*", ".*", ".*")),
        Change("v", DeclareQueue("of v", durable=True), NEW + 1),
        change_of(DeleteUser("new")),
        change_of(DeleteVhost("v")),
        # What was said of it before its end.
        Change("v", NoteConsumer("of v"), 0),
    ]
    assert say(follower, *changes) == ""
    member = follower.member
    assert sorted(member.vhost.queues) == ["log", "many", "q"]
    member.flushed()
    assert member.restarted().digest() == member.digest()
