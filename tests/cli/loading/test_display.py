"""What people see: live figures, a blocked connection, a table that hides no loss."""

import io

from rich.console import Console

from penstock.cli.loading.arrivals import Account
from penstock.cli.loading.crew import Snapshot
from penstock.cli.loading.display import LiveDisplay, outcome_table
from penstock.cli.loading.outcome import Outcome
from penstock.cli.loading.plan import make_plan

PLAN = make_plan(uri="amqp://", run=1, messages=1000)


def snapshot(seconds: float, published: int, blocked: str | None = None) -> Snapshot:
    return Snapshot(seconds, "publishing", published, published, published // 2, blocked)


def shown(*snapshots: Snapshot) -> str:
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, width=200)
    with LiveDisplay(PLAN, console) as display:
        for one in snapshots:
            display.show(one)
    return terminal.getvalue()


def test_rates_are_those_since_the_last_look() -> None:
    text = shown(snapshot(1.0, 100), snapshot(2.0, 400))
    assert "published 300/s" in text
    assert "delivered 150/s" in text


def test_a_blocked_connection_is_shown_with_the_brokers_reason() -> None:
    assert "blocked by the broker: low on memory" in shown(snapshot(1.0, 1, "low on memory"))


def outcome(account: Account) -> Outcome:
    return Outcome(
        published=1000,
        confirmed=1000,
        delivered=990,
        foreign=3,
        publish_rate=1000.0,
        internal_switching_rate=1000.0,
        external_switching_rate=990.0,
        latency={50.0: 999, 100.0: 2_500_000},
        confirm_latency={50.0: None, 100.0: 1500},
        account=account,
        faucet_cpu_microseconds=0.3,
        sink_cpu_microseconds=1.8,
        faults=("the line broke",),
        confirming=True,
    )


def test_the_table_names_every_loss_fault_and_figure() -> None:
    account = Account(received=990, lost=10, not_promised=4, examples_lost=[("q", 2, 77)])
    terminal = io.StringIO()
    Console(file=terminal, width=120).print(outcome_table(PLAN, outcome(account), "title"))
    text = terminal.getvalue()
    for words in (
        "q: publisher 2, message 77",
        "the line broke",
        "999 µs",
        "2.50 s",
        "1.5 ms",
        "n/a",
    ):
        assert words in text
    for name, figure in {"lost": "10", "foreign messages": "3", "not delivered": "4"}.items():
        assert any(name in line and figure in line for line in text.splitlines()), name
