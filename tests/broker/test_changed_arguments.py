"""Arguments of a queue that change in place."""

import pytest

from penstock.broker.access.actor import NOBODY
from penstock.broker.access.permissions import Permission, needs
from penstock.broker.command_events import vhost_event_of
from penstock.broker.errors import PreconditionFailed, ResourceLocked
from penstock.broker.events import EventKind
from penstock.broker.leases.leases import LeaseRequest, take_lease
from penstock.broker.topology import ChangeQueueArguments, DeclareQueue, SetPolicy
from penstock.broker.vhost import VirtualHost
from tests.broker.doubles import make_vhost, message
from tests.broker.store.doubles import Broker

NOW = 5


@pytest.fixture
def vhost() -> VirtualHost:
    return make_vhost()


def declare(vhost: VirtualHost, arguments: dict[str, object], *, durable: bool = False) -> None:
    vhost.apply(DeclareQueue("q", durable=durable, arguments=arguments), NOW)


def change(vhost: VirtualHost, arguments: dict[str, object]) -> None:
    vhost.apply(ChangeQueueArguments("q", arguments), NOW)


def test_a_declaration_with_the_new_arguments_is_equivalent_and_with_the_old_is_not(
    vhost: VirtualHost,
) -> None:
    declare(vhost, {"x-max-length": 5, "x-expires": 1000})
    change(vhost, {"x-max-length": 7, "x-expires": None, "x-message-ttl": 60_000})
    declare(vhost, {"x-max-length": 7, "x-message-ttl": 60_000})
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'x-expires'"):
        declare(vhost, {"x-max-length": 5, "x-expires": 1000})


def test_a_smaller_limit_drops_the_oldest_at_once(vhost: VirtualHost) -> None:
    declare(vhost, {})
    queue = vhost.queue("q")
    for body in (b"1", b"2", b"3"):
        queue.enqueue(message(body), NOW)
    change(vhost, {"x-max-length": 2})
    assert [entry.message.body for entry in queue.browse(9)] == [b"2", b"3"]


def test_a_policy_still_counts_beside_the_new_arguments(vhost: VirtualHost) -> None:
    declare(vhost, {})
    vhost.apply(SetPolicy("p", "q", {"max-length": 4}), NOW)
    change(vhost, {"x-max-length": 9})
    assert vhost.queue("q").settings.max_length == 4


@pytest.mark.parametrize(
    "argument", ["x-max-priority", "x-queue-type", "x-single-active-consumer", "x-lease-of", "own"]
)
def test_an_argument_that_decides_how_messages_are_kept_is_refused_with_what_to_do(
    vhost: VirtualHost, argument: str
) -> None:
    declare(vhost, {"x-max-length": 5})
    with pytest.raises(PreconditionFailed, match="declare another queue"):
        change(vhost, {"x-max-length": 6, argument: 1})
    # Nothing was changed.
    declare(vhost, {"x-max-length": 5})


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-max-length": -1},
        {"x-message-ttl": "soon"},
        {"x-overflow": "explode"},
        {"x-delivery-limit": 3},
        {"x-max-age": "1D"},
        {"x-dead-letter-routing-key": "key"},
    ],
)
def test_what_could_not_be_declared_is_refused(
    vhost: VirtualHost, arguments: dict[str, object]
) -> None:
    declare(vhost, {})
    with pytest.raises(PreconditionFailed):
        change(vhost, arguments)
    declare(vhost, {})


def test_the_exchange_of_dead_letters_cannot_go_before_its_key(vhost: VirtualHost) -> None:
    declare(vhost, {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "key"})
    with pytest.raises(PreconditionFailed, match="routing_key_but_no_dlx_defined"):
        change(vhost, {"x-dead-letter-exchange": None})


def test_leases_and_exclusive_queues_of_others_are_refused(vhost: VirtualHost) -> None:
    declare(vhost, {}, durable=True)
    take_lease(vhost, LeaseRequest("q", "ann", 1), NOW)
    lease = next(name for name in vhost.queues if name != "q")
    with pytest.raises(PreconditionFailed, match="internal queue"):
        vhost.apply(ChangeQueueArguments(lease, {"x-max-length": 1}), NOW)
    vhost.apply(DeclareQueue("mine", exclusive=True, connection=7), NOW)
    with pytest.raises(ResourceLocked):
        vhost.apply(ChangeQueueArguments("mine", {"x-max-length": 1}), NOW)


def test_a_change_outlives_a_restart() -> None:
    broker = Broker()
    declare(broker.vhost, {"x-expires": 100_000}, durable=True)
    change(broker.vhost, {"x-expires": None, "x-max-length": 3})
    broker.tick()
    restarted = broker.restarted()
    assert restarted.vhost.queue("q").arguments == {"x-max-length": 3}
    assert restarted.vhost.queue("q").settings.max_length == 3


def test_a_change_takes_what_a_declaration_takes() -> None:
    plain = needs(ChangeQueueArguments("q", {"x-max-length": 3}), creates=False)
    assert [(need.permission, need.name) for need in plain] == [(Permission.CONFIGURE, "q")]
    forwarding = needs(ChangeQueueArguments("q", {"x-dead-letter-exchange": "e"}), creates=False)
    assert [(need.permission, need.name) for need in forwarding] == [
        (Permission.CONFIGURE, "q"),
        (Permission.READ, "q"),
        (Permission.WRITE, "e"),
    ]


def test_a_change_is_an_event_that_names_queue_and_arguments() -> None:
    event = vhost_event_of(
        "/", ChangeQueueArguments("q", {"x-max-length": 3, "x-expires": None}), NOBODY
    )
    assert event is not None
    assert event.kind is EventKind.ARGUMENTS_CHANGED
    assert event.facts["queue"] == "q"
    assert event.facts["arguments"] == "x-expires x-max-length"
