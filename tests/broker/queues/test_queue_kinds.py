"""A kind of queue that the broker does not know is added from outside, here by a test."""

import pytest

from penstock.broker.arguments import CLASSIC, QueueArguments, QueueType
from penstock.broker.errors import PreconditionFailed
from penstock.broker.message import Message
from penstock.broker.publishing.routing import resolve
from penstock.broker.queues.message_queue import MessageQueue, QueueOwner
from penstock.broker.queues.queue_kinds import QueueMaker
from penstock.broker.shared_services import SharedServices
from penstock.broker.topology import BindQueue, DeclareQueue, DeleteQueue, SetPolicy
from penstock.broker.vhost import VirtualHost
from tests.broker.queues.doubles import message

TALLY = QueueType("tally", "test_tally_queue", frozenset({"x-max-priority"}))
DECLARE = DeclareQueue("t", durable=True, arguments={"x-queue-type": "tally"})


class TallyQueue(MessageQueue):
    """Counts what arrives and keeps nothing of it."""

    began_at = -1

    @property
    def message_count(self) -> int:
        return self.published_total

    @property
    def ready_count(self) -> int:
        return 0

    @property
    def keeps_messages(self) -> bool:
        return False

    def begin(self, now: int) -> None:
        self.began_at = now

    def used(self, now: int) -> None:
        pass

    def apply_settings(self, settings: QueueArguments, now: int) -> None:
        self.settings = settings

    def enqueue(self, message: Message, now: int, seen: bool = False) -> bool:
        self.published_total += 1
        return True

    def deleted(self, now: int) -> None:
        self.is_deleted = True


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
        if name == "forbidden":
            raise PreconditionFailed("nobody counts here")
        return TallyQueue(vhost, name, durable, exclusive_owner, auto_delete, settings, arguments)


@pytest.fixture
def vhost() -> VirtualHost:
    shared = SharedServices()
    shared.kinds.add(TALLY, TallyMaker())
    return VirtualHost("/", shared)


def publish(vhost: VirtualHost, exchange: str, key: str) -> int:
    sent = message(b"one")
    route = resolve(vhost.routing, vhost.exchanges[exchange], key, sent.properties)
    return sum([queue.enqueue(sent, 0) for queue in route.queues])


def test_a_kind_of_another_room_is_declared_and_published_to(vhost: VirtualHost) -> None:
    vhost.apply(DECLARE, 7)
    queue = vhost.queue("t")
    assert isinstance(queue, TallyQueue)
    assert (queue.queue_type, queue.began_at, queue.durable) == (TALLY, 7, True)
    vhost.apply(BindQueue("t", "amq.topic", "a.#"), 0)
    assert publish(vhost, "", "t") + publish(vhost, "amq.topic", "a.b") == 2
    assert queue.message_count == 2


def test_policies_reach_a_kind_of_another_room(vhost: VirtualHost) -> None:
    vhost.apply(DECLARE, 0)
    vhost.apply(SetPolicy("p", ".*", {"max-length": 5}, "queues"), 0)
    assert vhost.queue("t").settings.max_length == 5


def test_its_counts_stay_among_the_totals_when_it_is_gone(vhost: VirtualHost) -> None:
    vhost.apply(DECLARE, 0)
    publish(vhost, "", "t")
    vhost.apply(DeleteQueue("t"), 0)
    assert "t" not in vhost.queues
    assert vhost.shared.totals.published == 1


def test_arguments_that_a_kind_does_not_support_are_refused(vhost: VirtualHost) -> None:
    arguments: dict[str, object] = {"x-queue-type": "tally", "x-max-priority": 3}
    with pytest.raises(PreconditionFailed, match=r"x-max-priority.*test_tally_queue"):
        vhost.apply(DeclareQueue("t", arguments=arguments), 0)


def test_a_kind_that_nobody_added_is_refused() -> None:
    with pytest.raises(PreconditionFailed, match="unsupported queue type 'tally'"):
        VirtualHost("/", SharedServices()).apply(DECLARE, 0)


def test_a_maker_that_refuses_leaves_nothing_behind(vhost: VirtualHost) -> None:
    generation = vhost.generation
    arguments: dict[str, object] = {"x-queue-type": "tally"}
    with pytest.raises(PreconditionFailed, match="nobody counts here"):
        vhost.apply(DeclareQueue("forbidden", arguments=arguments), 0)
    assert (len(vhost.queues), vhost.generation) == (0, generation)
    assert vhost.shared.totals.queues_declared == 0


def test_another_room_may_make_the_queues_of_a_known_type(vhost: VirtualHost) -> None:
    vhost.shared.kinds.add(CLASSIC, TallyMaker())
    vhost.apply(DeclareQueue("q"), 0)
    queue = vhost.queue("q")
    assert isinstance(queue, TallyQueue)
    assert queue.queue_type is CLASSIC
