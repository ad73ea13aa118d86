"""The figures: rates, ISR and XSR from counts and times, and a broken promise from the books."""

from penstock.cli.loading.arrivals import Arrivals, ArrivalsPage
from penstock.cli.loading.outcome import NANOSECONDS, Outcome, conclude
from penstock.cli.loading.plan import Mode, Plan, make_plan
from penstock.cli.loading.reports import FaucetFinished, SinkFinished


def pages_of(*sequences: int) -> ArrivalsPage:
    ledger = Arrivals()
    for sequence in sequences:
        ledger.enter(sequence, redelivered=False)
    return ledger.page()


def faucet(confirmed: int, unpromised: tuple[int, ...] = ()) -> FaucetFinished:
    return FaucetFinished(
        publisher=0,
        published=confirmed + len(unpromised),
        confirmed=confirmed,
        unpromised=unpromised,
        started=5 * NANOSECONDS,
        ended=7 * NANOSECONDS,
        cpu_seconds=1e-6 * confirmed,
        confirm_latency={10: confirmed},
    )


def sink(plan: Plan, *sequences: int, fault: str | None = None) -> SinkFinished:
    return SinkFinished(
        delivered=len(sequences) * len(plan.queues),
        foreign=0,
        last_delivery=9 * NANOSECONDS,
        cpu_seconds=0.0,
        pages={(queue, 0): pages_of(*sequences) for queue in plan.queues},
        latency={20: len(sequences)},
        fault=fault,
    )


def planned(mode: Mode = Mode.CONFIRM, queues: int = 1, consumers: int = 1) -> Plan:
    return make_plan(uri="amqp://", run=1, mode=mode, queues=queues, consumers=consumers)


def concluded(plan: Plan, finished: FaucetFinished, *sinks: SinkFinished) -> Outcome:
    return conclude(plan, [finished], list(sinks))


def test_rates_are_counts_over_the_time_they_took() -> None:
    plan = planned(queues=3)
    outcome = concluded(plan, faucet(4), sink(plan, 0, 1, 2, 3))
    assert outcome.publish_rate == 2.0
    assert outcome.internal_switching_rate == 6.0
    assert outcome.external_switching_rate == 3.0
    assert outcome.confirm_latency[50.0] == 10
    assert outcome.latency[100.0] == 20
    assert not outcome.broke_a_promise


def test_sinks_without_consumers_have_no_account_and_no_external_rate() -> None:
    outcome = concluded(planned(Mode.FANOUT, queues=16, consumers=0), faucet(4))
    assert outcome.internal_switching_rate == 32.0
    assert outcome.external_switching_rate == 0.0
    assert not outcome.broke_a_promise


def test_a_confirmed_message_that_never_came_is_a_broken_promise() -> None:
    plan = planned()
    outcome = concluded(plan, faucet(3), sink(plan, 0, 2))
    assert outcome.account.lost == 1
    assert outcome.broke_a_promise
    assert outcome.as_json()["lost"] == 1


def test_an_unconfirmed_message_that_never_came_breaks_no_promise() -> None:
    plan = planned()
    outcome = concluded(plan, faucet(2, unpromised=(2,)), sink(plan, 0, 1))
    assert (outcome.account.lost, outcome.account.not_promised) == (0, 1)
    assert not outcome.broke_a_promise


def test_without_confirms_a_loss_is_shown_but_was_not_promised() -> None:
    plan = planned(Mode.TRANSIENT)
    outcome = concluded(plan, faucet(3), sink(plan, 0, 2))
    assert outcome.account.lost == 1
    assert not outcome.broke_a_promise


def test_faults_of_any_process_are_kept() -> None:
    plan = planned()
    assert concluded(plan, faucet(1), sink(plan, 0, fault="gone")).faults == ("gone",)
