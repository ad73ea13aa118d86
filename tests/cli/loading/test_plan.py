"""A plan: what the user left open is filled in, what contradicts itself is refused."""

import pytest

from penstock.cli.loading.plan import (
    FANOUT_QUEUES,
    PROCESSES_MAX,
    QUEUES_MAX,
    Mode,
    Plan,
    PlanRefused,
    make_plan,
)


def planned(**options: object) -> Plan:
    return make_plan(uri="amqp://", run=0xABC, **options)  # type: ignore[arg-type]


def test_nothing_said_is_one_publisher_one_queue_one_consumer_for_five_seconds() -> None:
    plan = planned()
    assert (plan.publishers, plan.consumers, len(plan.queues)) == (1, 1, 1)
    assert (plan.seconds, plan.messages) == (5.0, None)
    assert (plan.confirm_window > 0, plan.no_ack, plan.persistent) == (True, False, False)
    assert plan.exchange == ""
    assert plan.key_of(0) == plan.queues[0]
    assert plan.owns_queues


def test_a_number_of_messages_sets_no_time() -> None:
    assert planned(messages=10).seconds is None
    assert planned(messages=10, seconds=1.0).seconds == 1.0


def test_transient_is_without_confirms_and_acks() -> None:
    plan = planned(mode=Mode.TRANSIENT)
    assert (plan.confirm_window, plan.no_ack) == (0, True)


def test_durable_is_persistent() -> None:
    assert planned(mode=Mode.DURABLE).persistent
    assert not planned(mode=Mode.DURABLE, persistent=False).persistent


def test_fanout_is_one_faucet_into_sinks_nobody_consumes() -> None:
    plan = planned(mode=Mode.FANOUT)
    assert (plan.publishers, plan.consumers) == (1, 0)
    assert plan.queues_reached == len(plan.queues) == FANOUT_QUEUES
    assert plan.owns_exchange
    assert plan.queues_of_publisher(0) == plan.queues


def test_pairs_do_not_meet() -> None:
    plan = planned(pairs=3)
    assert (plan.publishers, plan.consumers, plan.queues_reached) == (3, 3, 1)
    for index in range(3):
        assert plan.queues_of_publisher(index) == (plan.queues[index],)
        assert plan.queues_of_consumer(index) == (plan.queues[index],)


@pytest.mark.parametrize(("consumers", "queues"), [(1, 5), (2, 5), (5, 5), (7, 3)])
def test_every_queue_has_a_consumer_and_every_consumer_a_queue(consumers: int, queues: int) -> None:
    plan = planned(consumers=consumers, queues=queues)
    shares = [plan.queues_of_consumer(index) for index in range(consumers)]
    assert all(shares)
    assert {queue for share in shares for queue in share} == set(plan.queues)


def test_shares_of_the_publishers_add_up() -> None:
    plan = planned(publishers=3, messages=10)
    assert [plan.share_of_publisher(index) for index in range(3)] == [4, 3, 3]
    assert planned().share_of_publisher(0) is None


def test_what_the_user_named_stays_the_users() -> None:
    plan = planned(exchange="mine", routing_key="key", queue="sink")
    assert (plan.exchange, plan.key_of(0), plan.queues) == ("mine", "key", ("sink",))
    assert not plan.owns_exchange
    assert not plan.owns_queues


@pytest.mark.parametrize(
    "options",
    [
        {"size": 21},
        {"pairs": 2, "consumers": 1},
        {"pairs": 2, "exchange": "mine"},
        {"publishers": PROCESSES_MAX},
        {"queues": QUEUES_MAX + 1},
        {"routing_key": "key"},
    ],
)
def test_contradictions_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(PlanRefused):
        planned(**options)
