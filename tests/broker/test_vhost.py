import pytest

from penstock.broker.errors import (
    AccessRefused,
    CommandInvalid,
    NotFound,
    PreconditionFailed,
    Refusal,
    ResourceLocked,
)
from penstock.broker.topology import (
    DONE,
    BindExchange,
    BindQueue,
    DeclareExchange,
    DeclareQueue,
    Deleted,
    DeleteExchange,
    DeleteQueue,
    Purged,
    PurgeQueue,
    QueueDeclared,
    SetVhostLimits,
    UnbindExchange,
    UnbindQueue,
    VhostCommand,
)
from penstock.broker.vhost import VirtualHost
from tests.broker.doubles import DeafConsumer, make_vhost, message

OWNER, STRANGER = 7, 8
LOCKED = (
    "cannot obtain exclusive access to locked queue 'mine' in vhost '/'. It could be originally "
    "declared on another connection or the exclusive property value does not match that of the "
    "original declaration."
)
ON_DEFAULT = "operation not permitted on the default exchange"


@pytest.fixture
def vhost() -> VirtualHost:
    vhost = make_vhost()
    vhost.apply(DeclareQueue("q", durable=True, arguments={"x-message-ttl": 1000}), 0)
    vhost.apply(DeclareExchange("e", "direct", durable=True), 0)
    vhost.apply(DeclareQueue("mine", exclusive=True, connection=OWNER), 0)
    return vhost


def refused(vhost: VirtualHost, command: VhostCommand) -> tuple[type[Refusal], str]:
    """How a command is refused; nothing may have changed then."""
    generation = vhost.generation
    with pytest.raises(Refusal) as refusal:
        vhost.apply(command, 0)
    assert vhost.generation == generation
    return type(refusal.value), refusal.value.text


def test_a_queue_is_declared_once_and_found_again(vhost: VirtualHost) -> None:
    again = DeclareQueue("q", durable=True, arguments={"x-message-ttl": 1000, "x-foo": 1})
    assert vhost.apply(DeclareQueue("new"), 0) == QueueDeclared("new", 0, 0, True)
    assert vhost.apply(again, 0) == QueueDeclared("q", 0, 0, False)
    vhost.queues["q"].enqueue(message(), 0)
    assert vhost.apply(DeclareQueue("q", passive=True), 0) == QueueDeclared("q", 1, 0, False)


@pytest.mark.parametrize(
    ("command", "name", "difference"),
    [
        (
            DeclareQueue("q", arguments={"x-message-ttl": 1000}),
            "durable",
            "received 'false' but current is 'true'",
        ),
        (
            DeclareQueue("q", durable=True, auto_delete=True, arguments={"x-message-ttl": 1000}),
            "auto_delete",
            "received 'true' but current is 'false'",
        ),
        (
            DeclareQueue("q", durable=True, arguments={"x-message-ttl": 5}),
            "x-message-ttl",
            "received '5' but current is '1000'",
        ),
        (
            DeclareQueue("q", durable=True),
            "x-message-ttl",
            "received none but current is the value '1000' of type 'signedint'",
        ),
        (
            DeclareQueue(
                "q", durable=True, arguments={"x-message-ttl": 1000, "x-queue-type": "quorum"}
            ),
            "x-queue-type",
            "received the value 'quorum' of type 'longstr' but current is none",
        ),
    ],
)
def test_a_different_queue_of_the_same_name_is_refused(
    vhost: VirtualHost, command: DeclareQueue, name: str, difference: str
) -> None:
    text = f"inequivalent arg '{name}' for queue 'q' in vhost '/': {difference}"
    assert refused(vhost, command) == (PreconditionFailed, text)


def test_saying_that_a_queue_is_classic_changes_nothing(vhost: VirtualHost) -> None:
    arguments: dict[str, object] = {"x-message-ttl": 1000, "x-queue-type": "classic"}
    declared = vhost.apply(DeclareQueue("q", durable=True, arguments=arguments), 0)
    assert declared == QueueDeclared("q", 0, 0, False)


def test_reserved_queue_names_are_for_the_server(vhost: VirtualHost) -> None:
    text = "queue name 'amq.gen-1' contains reserved prefix 'amq.*'"
    assert refused(vhost, DeclareQueue("amq.gen-1")) == (AccessRefused, text)
    vhost.apply(DeclareQueue("amq.gen-1", server_named=True), 0)
    assert vhost.apply(DeclareQueue("amq.gen-1", passive=True), 0) == QueueDeclared(
        "amq.gen-1", 0, 0, False
    )


def test_a_name_has_at_most_255_octets(vhost: VirtualHost) -> None:
    vhost.apply(DeclareQueue("n" * 255), 0)
    assert refused(vhost, DeclareQueue("n" * 256))[0] is PreconditionFailed
    assert refused(vhost, DeclareQueue("ü" * 128))[0] is PreconditionFailed


@pytest.mark.parametrize(
    "command",
    [
        DeclareQueue("nope", passive=True),
        BindQueue("nope", "e"),
        PurgeQueue("nope"),
    ],
)
def test_a_queue_that_is_not_there_is_not_found(vhost: VirtualHost, command: VhostCommand) -> None:
    assert refused(vhost, command) == (NotFound, "no queue 'nope' in vhost '/'")


@pytest.mark.parametrize(
    "command",
    [
        DeclareExchange("nope", "", passive=True),
        BindQueue("q", "nope"),
        BindQueue("nope too", "nope"),
        BindExchange("e", "nope"),
        BindExchange("nope", "e"),
    ],
)
def test_an_exchange_that_is_not_there_is_not_found(
    vhost: VirtualHost, command: VhostCommand
) -> None:
    assert refused(vhost, command) == (NotFound, "no exchange 'nope' in vhost '/'")


@pytest.mark.parametrize(
    ("command", "result"),
    [
        (UnbindQueue("nope", "e"), DONE),
        (UnbindQueue("q", "nope"), DONE),
        (UnbindQueue("q", "e"), DONE),
        (UnbindQueue("mine", "e", connection=STRANGER), DONE),
        (UnbindExchange("nope", "e"), DONE),
        (UnbindExchange("e", "e"), DONE),
        (DeleteQueue("nope"), Deleted(0)),
        (DeleteExchange("nope"), DONE),
    ],
)
def test_taking_away_what_is_not_there_is_in_order(
    vhost: VirtualHost, command: VhostCommand, result: object
) -> None:
    assert vhost.apply(command, 0) == result


@pytest.mark.parametrize(
    "command",
    [
        DeclareExchange("", "direct"),
        DeclareExchange("", "direct", passive=True),
        DeleteExchange(""),
        BindQueue("q", ""),
        UnbindQueue("q", ""),
        BindExchange("e", ""),
        BindExchange("", "e"),
        UnbindExchange("", "e"),
    ],
)
def test_the_default_exchange_cannot_be_changed(vhost: VirtualHost, command: VhostCommand) -> None:
    assert refused(vhost, command) == (AccessRefused, ON_DEFAULT)


@pytest.mark.parametrize(
    "command",
    [
        DeclareQueue("mine", exclusive=True, connection=STRANGER),
        DeclareQueue("mine", connection=STRANGER),
        DeclareQueue("mine", connection=OWNER),
        DeclareQueue("mine", passive=True, connection=STRANGER),
        BindQueue("mine", "e", connection=STRANGER),
        PurgeQueue("mine", connection=STRANGER),
        DeleteQueue("mine", connection=STRANGER),
    ],
)
def test_an_exclusive_queue_is_locked(vhost: VirtualHost, command: VhostCommand) -> None:
    assert refused(vhost, command) == (ResourceLocked, LOCKED)


def test_its_owner_may_use_an_exclusive_queue_and_takes_it_along(vhost: VirtualHost) -> None:
    vhost.apply(BindQueue("mine", "e", connection=OWNER), 0)
    vhost.connection_ended(STRANGER, 0)
    assert "mine" in vhost.queues
    vhost.connection_ended(OWNER, 0)
    assert "mine" not in vhost.queues
    assert vhost.bindings.listed() == []
    vhost.apply(DeclareQueue("mine"), 0)
    vhost.connection_ended(OWNER, 0)
    assert "mine" in vhost.queues


def test_a_queue_in_use_or_not_empty_can_be_spared(vhost: VirtualHost) -> None:
    queue = vhost.queues["q"]
    consumer = DeafConsumer()
    queue.add_consumer(consumer)
    queue.enqueue(message(), 0)
    in_use = (PreconditionFailed, "queue 'q' in vhost '/' in use")
    not_empty = (PreconditionFailed, "queue 'q' in vhost '/' not empty")
    assert refused(vhost, DeleteQueue("q", if_unused=True)) == in_use
    assert refused(vhost, DeleteQueue("q", if_empty=True)) == not_empty
    assert vhost.apply(DeleteQueue("q"), 0) == Deleted(1)
    assert consumer.heard_cancel


def test_purge_says_how_many_it_dropped(vhost: VirtualHost) -> None:
    for _ in range(3):
        vhost.queues["q"].enqueue(message(), 0)
    assert vhost.apply(PurgeQueue("q"), 0) == Purged(3)
    assert vhost.queues["q"].message_count == 0


def test_the_last_consumer_takes_an_auto_delete_queue_along(vhost: VirtualHost) -> None:
    vhost.apply(DeclareQueue("fleeting", auto_delete=True), 0)
    queue = vhost.queues["fleeting"]
    consumer = DeafConsumer()
    queue.add_consumer(consumer)
    queue.remove_consumer(consumer, 0)
    assert "fleeting" not in vhost.queues


def test_an_unused_queue_expires(vhost: VirtualHost) -> None:
    vhost.apply(DeclareQueue("short", arguments={"x-expires": 50}), 0)
    vhost.timers.fire_due(49)
    assert "short" in vhost.queues
    vhost.timers.fire_due(50)
    assert "short" not in vhost.queues


def test_declaring_a_queue_again_puts_off_its_expiry(vhost: VirtualHost) -> None:
    command = DeclareQueue("short", arguments={"x-expires": 50})
    vhost.apply(command, 0)
    vhost.apply(command, 40)
    vhost.timers.fire_due(60)
    assert "short" in vhost.queues
    vhost.timers.fire_due(90)
    assert "short" not in vhost.queues


def test_an_ended_connection_leaves_nothing_behind(vhost: VirtualHost) -> None:
    vhost.apply(DeleteQueue("mine", connection=OWNER), 0)
    assert not vhost._exclusive


@pytest.mark.parametrize(
    ("command", "name", "difference"),
    [
        (
            DeclareExchange("e", "fanout", durable=True),
            "type",
            "received 'fanout' but current is 'direct'",
        ),
        (DeclareExchange("e", "direct"), "durable", "received 'false' but current is 'true'"),
        (
            DeclareExchange("e", "direct", durable=True, auto_delete=True),
            "auto_delete",
            "received 'true' but current is 'false'",
        ),
        (
            DeclareExchange("e", "direct", durable=True, internal=True),
            "internal",
            "received 'true' but current is 'false'",
        ),
        (
            DeclareExchange("e", "direct", durable=True, arguments={"alternate-exchange": "q"}),
            "alternate-exchange",
            "received the value 'q' of type 'longstr' but current is none",
        ),
    ],
)
def test_a_different_exchange_of_the_same_name_is_refused(
    vhost: VirtualHost, command: DeclareExchange, name: str, difference: str
) -> None:
    text = f"inequivalent arg '{name}' for exchange 'e' in vhost '/': {difference}"
    assert refused(vhost, command) == (PreconditionFailed, text)


def test_an_unknown_exchange_type_is_refused_before_anything_else(vhost: VirtualHost) -> None:
    unknown = (CommandInvalid, "unknown exchange type 'bogus'")
    assert refused(vhost, DeclareExchange("e", "bogus")) == unknown
    assert refused(vhost, DeclareExchange("new", "")) == (
        CommandInvalid,
        "invalid exchange type ''",
    )


def test_a_delayed_exchange_must_say_how_it_routes(vhost: VirtualHost) -> None:
    text = "Invalid argument, 'x-delayed-type' must be an existing exchange type"
    for arguments in ({}, {"x-delayed-type": "bogus"}, {"x-delayed-type": "x-delayed-message"}):
        command = DeclareExchange("late", "x-delayed-message", arguments=dict(arguments))
        assert refused(vhost, command) == (PreconditionFailed, text)


def test_an_alternate_exchange_must_be_a_name(vhost: VirtualHost) -> None:
    command = DeclareExchange("new", "direct", arguments={"alternate-exchange": 1})
    text = "invalid type 'signedint' for arg 'alternate-exchange' in exchange 'new' in vhost '/'"
    assert refused(vhost, command) == (PreconditionFailed, text)


def test_system_exchanges_stand_from_the_beginning_and_stay(vhost: VirtualHost) -> None:
    kinds = {name: exchange.kind for name, exchange in make_vhost().exchanges.items()}
    assert kinds == {
        "": "direct",
        "amq.direct": "direct",
        "amq.fanout": "fanout",
        "amq.topic": "topic",
        "amq.headers": "headers",
        "amq.match": "headers",
        "amq.rabbitmq.trace": "topic",
    }
    assert vhost.exchanges["amq.rabbitmq.trace"].internal
    vhost.apply(DeclareExchange("amq.direct", "direct", durable=True), 0)
    reserved = "exchange name 'amq.foo' contains reserved prefix 'amq.*'"
    assert refused(vhost, DeclareExchange("amq.foo", "direct")) == (AccessRefused, reserved)
    stays = "deletion of system exchange 'amq.direct' in vhost '/' not allowed"
    assert refused(vhost, DeleteExchange("amq.direct")) == (AccessRefused, stays)


def test_a_deleted_exchange_leaves_no_bindings(vhost: VirtualHost) -> None:
    vhost.apply(DeclareExchange("other", "fanout"), 0)
    vhost.apply(BindQueue("q", "e", "k"), 0)
    vhost.apply(BindExchange("e", "other"), 0)
    vhost.apply(BindExchange("e", "e"), 0)
    in_use = (PreconditionFailed, "exchange 'e' in vhost '/' in use")
    assert refused(vhost, DeleteExchange("e", if_unused=True)) == in_use
    vhost.apply(DeleteExchange("e"), 0)
    assert "e" not in vhost.exchanges
    assert vhost.bindings.listed() == []
    vhost.apply(DeleteExchange("other", if_unused=True), 0)
    assert "other" not in vhost.exchanges


def test_an_auto_delete_exchange_goes_with_the_last_binding_that_leaves_it(
    vhost: VirtualHost,
) -> None:
    vhost.apply(DeclareExchange("fleeting", "direct", auto_delete=True), 0)
    vhost.apply(BindExchange("fleeting", "e"), 0)
    vhost.apply(UnbindExchange("fleeting", "e"), 0)
    assert "fleeting" in vhost.exchanges, "bindings towards it do not count"
    vhost.apply(BindQueue("q", "fleeting", "a"), 0)
    vhost.apply(BindQueue("mine", "fleeting", "b", connection=OWNER), 0)
    vhost.apply(UnbindQueue("q", "fleeting", "a"), 0)
    assert "fleeting" in vhost.exchanges
    vhost.connection_ended(OWNER, 0)
    assert "fleeting" not in vhost.exchanges


def test_a_long_chain_of_auto_delete_exchanges_falls_without_recursion(
    vhost: VirtualHost,
) -> None:
    for number in range(3000):
        vhost.apply(DeclareExchange(f"link {number}", "fanout", auto_delete=True), 0)
        if number:
            vhost.apply(BindExchange(f"link {number}", f"link {number - 1}"), 0)
    vhost.apply(BindQueue("q", "link 2999"), 0)
    vhost.apply(DeleteQueue("q"), 0)
    assert not [name for name in vhost.exchanges if name.startswith("link")]


def test_binding_twice_is_one_binding_and_arguments_tell_bindings_apart(
    vhost: VirtualHost,
) -> None:
    vhost.apply(BindQueue("q", "e", "k"), 0)
    generation = vhost.generation
    vhost.apply(BindQueue("q", "e", "k"), 0)
    assert vhost.generation == generation
    vhost.apply(BindQueue("q", "e", "k", {"a": 1}), 0)
    vhost.apply(BindQueue("q", "e", "k", {"a": True}), 0)
    assert len(vhost.bindings.listed()) == 3
    vhost.apply(UnbindQueue("q", "e", "k", {"a": 1}), 0)
    assert [binding.arguments for binding in vhost.bindings.listed()] == [{}, {"a": True}]


def test_only_the_owner_unbinds_an_exclusive_queue(vhost: VirtualHost) -> None:
    vhost.apply(BindQueue("mine", "e", "k", connection=OWNER), 0)
    assert refused(vhost, UnbindQueue("mine", "e", "k", connection=STRANGER)) == (
        ResourceLocked,
        LOCKED,
    )
    vhost.apply(UnbindQueue("mine", "e", "k", connection=OWNER), 0)
    assert vhost.bindings.listed() == []


def test_a_bad_binding_is_refused(vhost: VirtualHost) -> None:
    command = BindQueue("q", "amq.headers", "", {"x-match": "bogus"})
    assert refused(vhost, command)[0] is PreconditionFailed


def test_the_number_of_queues_can_be_limited(vhost: VirtualHost) -> None:
    vhost.apply(SetVhostLimits(max_queues=2), 0)
    text = "cannot declare queue 'third': queue limit in vhost '/' (2) is reached"
    assert refused(vhost, DeclareQueue("third")) == (PreconditionFailed, text)
    vhost.apply(SetVhostLimits(), 0)
    vhost.apply(DeclareQueue("third"), 0)
