"""A kind of queue that the broker does not know is added from outside, here by a test.

Most tests add a type whose maker makes queues of one message. One adds a class of queue: the pure
build takes it, the compiled build takes compiled classes only and says so.
"""

import pytest

from penstock.broker.arguments import CLASSIC, QueueArguments, QueueType
from penstock.broker.errors import PreconditionFailed
from penstock.broker.message import Message
from penstock.broker.publishing.routing import resolve
from penstock.broker.queues.message_queue import MessageQueue, QueueOwner
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.queue_kinds import QueueMaker
from penstock.broker.shared_services import SharedServices
from penstock.broker.topology import BindQueue, DeclareQueue, DeleteQueue, SetPolicy
from penstock.broker.vhost import VirtualHost
from penstock.builds import build_mode
from tests.broker.queues.doubles import message, ready_bodies

LATEST = QueueType("latest", "test_latest_queue", frozenset({"x-max-priority"}))
DECLARE = DeclareQueue("t", durable=True, arguments={"x-queue-type": "latest"})


class LatestMaker(QueueMaker):
    """Of queues that keep the latest message only."""

    def make(
        self,
        vhost: QueueOwner,
        name: str,
        durable: bool,
        exclusive_owner: int,
        auto_delete: bool,
        settings: QueueArguments,
        arguments: dict[str, object],
        now: int,
    ) -> MessageQueue:
        if name == "forbidden":
            raise PreconditionFailed("nobody keeps anything here")
        settings.max_length = 1
        return Queue(vhost, name, durable, exclusive_owner, auto_delete, settings, arguments, now)


@pytest.fixture
def vhost() -> VirtualHost:
    shared = SharedServices()
    shared.kinds.add(LATEST, LatestMaker())
    return VirtualHost("/", shared)


def publish(vhost: VirtualHost, exchange: str, key: str, body: bytes) -> None:
    sent = message(body)
    for queue in resolve(vhost.routing, vhost.exchanges[exchange], key, sent.properties).queues:
        assert queue.enqueue(sent, 0)


def test_a_type_of_another_room_is_declared_and_published_to(vhost: VirtualHost) -> None:
    vhost.apply(DECLARE, 0)
    queue = vhost.queue("t")
    assert (queue.queue_type, queue.durable) == (LATEST, True)
    vhost.apply(BindQueue("t", "amq.topic", "a.#"), 0)
    publish(vhost, "", "t", b"first")
    publish(vhost, "amq.topic", "a.b", b"second")
    assert ready_bodies(queue) == [b"second"]


def test_policies_reach_a_type_of_another_room(vhost: VirtualHost) -> None:
    vhost.apply(DECLARE, 0)
    vhost.apply(SetPolicy("p", ".*", {"message-ttl": 5}, "queues"), 0)
    assert vhost.queue("t").settings.message_ttl_ms == 5
    assert vhost.queue("t").settings.queue_type is LATEST


def test_its_counts_stay_among_the_totals_when_it_is_gone(vhost: VirtualHost) -> None:
    vhost.apply(DECLARE, 0)
    publish(vhost, "", "t", b"one")
    vhost.apply(DeleteQueue("t"), 0)
    assert "t" not in vhost.queues
    assert vhost.shared.totals.published == 1


def test_arguments_that_a_type_does_not_support_are_refused(vhost: VirtualHost) -> None:
    arguments: dict[str, object] = {"x-queue-type": "latest", "x-max-priority": 3}
    with pytest.raises(PreconditionFailed, match=r"x-max-priority.*test_latest_queue"):
        vhost.apply(DeclareQueue("t", arguments=arguments), 0)


def test_a_type_that_nobody_added_is_refused() -> None:
    with pytest.raises(PreconditionFailed, match="unsupported queue type 'latest'"):
        VirtualHost("/", SharedServices()).apply(DECLARE, 0)


def test_a_maker_that_refuses_leaves_nothing_behind(vhost: VirtualHost) -> None:
    generation = vhost.generation
    arguments: dict[str, object] = {"x-queue-type": "latest"}
    with pytest.raises(PreconditionFailed, match="nobody keeps anything here"):
        vhost.apply(DeclareQueue("forbidden", arguments=arguments), 0)
    assert (len(vhost.queues), vhost.generation) == (0, generation)
    assert vhost.shared.totals.queues_declared == 0


def test_another_room_may_make_the_queues_of_a_known_type(vhost: VirtualHost) -> None:
    vhost.shared.kinds.add(CLASSIC, LatestMaker())
    vhost.apply(DeclareQueue("q"), 0)
    publish(vhost, "", "q", b"first")
    publish(vhost, "", "q", b"second")
    assert vhost.queue("q").queue_type is CLASSIC
    assert ready_bodies(vhost.queue("q")) == [b"second"]


class Tally(MessageQueue):
    """Counts what arrives and keeps nothing of it."""

    began_at = -1

    def begin(self, now: int) -> None:
        self.began_at = now

    def enqueue(self, message: Message, now: int, seen: bool = False) -> bool:
        self.published_total += 1
        return True

    def deleted(self, now: int) -> None:
        self.is_deleted = True

    @property
    def message_count(self) -> int:
        return self.published_total


class TallyMaker(QueueMaker):
    def make(
        self,
        vhost: QueueOwner,
        name: str,
        durable: bool,
        exclusive_owner: int,
        auto_delete: bool,
        settings: QueueArguments,
        arguments: dict[str, object],
        now: int,
    ) -> MessageQueue:
        return Tally(vhost, name, durable, exclusive_owner, auto_delete, settings, arguments)


def test_a_class_of_another_room_is_a_queue_like_any_other_where_it_is_compiled_as_well() -> None:
    shared = SharedServices()
    shared.kinds.add(LATEST, TallyMaker())
    vhost = VirtualHost("/", shared)
    if build_mode() == "compiled":
        with pytest.raises(TypeError, match="interpreted classes cannot inherit from compiled"):
            vhost.apply(DECLARE, 7)
        assert (len(vhost.queues), shared.totals.queues_declared) == (0, 0)
        return
    vhost.apply(DECLARE, 7)
    queue = vhost.queue("t")
    assert isinstance(queue, Tally)
    assert queue.began_at == 7
    publish(vhost, "", "t", b"one")
    publish(vhost, "", "t", b"two")
    assert queue.message_count == 2
    vhost.apply(DeleteQueue("t"), 8)
    assert queue.is_deleted
