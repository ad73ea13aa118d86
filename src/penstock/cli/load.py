"""`penstock load`: faucets and sinks on any AMQP 0-9-1 broker, every message accounted for."""

import json
import os
from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console

from penstock.cli.loading.crew import Crew, RunFailed, Snapshot
from penstock.cli.loading.display import LiveDisplay, outcome_table
from penstock.cli.loading.outcome import Outcome, conclude
from penstock.cli.loading.plan import Mode, Plan, PlanRefused, make_plan
from penstock.client.errors import ClientError, ConnectFailed, LoginRefused

# Exit codes: a broken promise must not look like a mistyped option (2) or a success.
BROKEN_PROMISE = 1
COULD_NOT_RUN = 3


def command(
    uri: Annotated[str, typer.Option(help="The broker.")] = "amqp://guest:guest@localhost:5672",
    mode: Annotated[
        Mode,
        typer.Option(
            help="transient: no confirms, no acks. confirm: both. durable: confirm, persistent, "
            "durable queues. fanout: one faucet into many bounded sinks nobody consumes (ISR)."
        ),
    ] = Mode.CONFIRM,
    size: Annotated[int, typer.Option(help="Octets of each body.")] = 100,
    seconds: Annotated[float | None, typer.Option(help="Publish this long (default 5).")] = None,
    messages: Annotated[int | None, typer.Option(help="Publish this many in all.")] = None,
    rate: Annotated[
        float | None, typer.Option(help="At most this many publishes per second in all.")
    ] = None,
    pairs: Annotated[
        int | None, typer.Option(help="So many publishers, each with its own queue and consumer.")
    ] = None,
    publishers: Annotated[int | None, typer.Option(help="Publishing connections.")] = None,
    consumers: Annotated[int | None, typer.Option(help="Consuming connections; 0 for none.")] = None,
    queues: Annotated[
        int | None, typer.Option(help="Sinks that every publish is switched into.")
    ] = None,
    confirm: Annotated[
        int | None, typer.Option(help="Publishes in flight without a confirm; 0: no confirms.")
    ] = None,
    no_ack: Annotated[
        bool | None, typer.Option("--no-ack/--ack", help="Consume without acknowledgements.")
    ] = None,
    prefetch: Annotated[int | None, typer.Option(help="Unacknowledged deliveries at most.")] = None,
    persistent: Annotated[
        bool | None, typer.Option("--persistent/--transient", help="Delivery mode of messages.")
    ] = None,
    exchange: Annotated[
        str | None, typer.Option(help="Publish here; made (fanout) when missing.")
    ] = None,
    routing_key: Annotated[str | None, typer.Option(help="Routing key of every publish.")] = None,
    queue: Annotated[
        str | None, typer.Option(help="Name of the queue, or prefix of several; kept afterwards.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Put a measured load on a broker and account for every message.

    Prints the publish rate, the internal switching rate (publishes times the queues each one
    reaches), the external switching rate (what leaves to consumers), latencies and the account:
    lost, duplicated, out of order. Ends with code 1 when something confirmed was lost.
    """
    errors = Console(stderr=True)
    try:
        plan = make_plan(
            uri=uri,
            run=int.from_bytes(os.urandom(4), "big"),
            mode=mode,
            size=size,
            pairs=pairs,
            publishers=publishers,
            consumers=consumers,
            queues=queues,
            exchange=exchange,
            routing_key=routing_key,
            queue=queue,
            confirm_window=confirm,
            no_ack=no_ack,
            prefetch=prefetch,
            persistent=persistent,
            rate=rate,
            messages=messages,
            seconds=seconds,
        )
    except PlanRefused as refused:
        raise typer.BadParameter(str(refused)) from refused
    try:
        outcome = run_shown(plan, errors, live=not as_json)
    except (ClientError, RunFailed) as error:
        errors.print(explained(error), style="red", highlight=False)
        raise typer.Exit(COULD_NOT_RUN) from error
    if as_json:
        print(json.dumps({"plan": described(plan), **outcome.as_json()}))
    else:
        Console().print(outcome_table(plan, outcome, f"penstock load, {plan.mode}"))
    if outcome.broke_a_promise:
        raise typer.Exit(BROKEN_PROMISE)
    if outcome.faults:
        raise typer.Exit(COULD_NOT_RUN)


def run_shown(plan: Plan, console: Console, *, live: bool) -> Outcome:
    if not live:
        return run_plan(plan, unwatched)
    with LiveDisplay(plan, console) as display:
        return run_plan(plan, display.show)


def run_plan(plan: Plan, watch: Callable[[Snapshot], None]) -> Outcome:
    faucets, sinks = Crew(plan, watch).run()
    return conclude(plan, faucets, sinks)


def unwatched(snapshot: Snapshot) -> None:
    """For runs that nobody looks at."""


def described(plan: Plan) -> dict[str, object]:
    return {
        "mode": plan.mode.value,
        "size": plan.size,
        "publishers": plan.publishers,
        "consumers": plan.consumers,
        "queues": len(plan.queues),
        "queues_reached": plan.queues_reached,
        "confirm_window": plan.confirm_window,
        "no_ack": plan.no_ack,
        "prefetch": plan.prefetch,
        "persistent": plan.persistent,
        "rate": plan.rate,
    }


def explained(error: Exception) -> str:
    """What went wrong, and what to try."""
    if isinstance(error, ConnectFailed):
        tried = "\n".join(f"  {address}: {reason}" for address, reason in error.attempts)
        return (
            f"Cannot connect to a broker. Tried:\n{tried}\n"
            "Is it running? `penstock serve` starts one; --uri names another."
        )
    if isinstance(error, LoginRefused):
        return (
            f"The broker refused the login: {error}\n"
            "Check user, password and virtual host in --uri; guest may log in from loopback only."
        )
    return f"The run failed: {error}"
