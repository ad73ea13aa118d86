"""`penstock load`: faucets and sinks on any AMQP 0-9-1 broker, every message accounted for."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlencode

import typer
from rich.console import Console

from penstock.cli.loading.crew import Crew, RunFailed, Snapshot
from penstock.cli.loading.display import LiveDisplay, outcome_table
from penstock.cli.loading.outcome import Outcome, conclude
from penstock.cli.loading.plan import Mode, Plan, PlanRefused, make_plan
from penstock.client.errors import ClientError, ConnectFailed, LoginRefused

# Exit codes: a lost message must not look like a mistyped option (2) or a success.
BROKEN_PROMISE: Final = 1
COULD_NOT_RUN: Final = 3


UriOption = Annotated[
    str,
    typer.Option(
        "--uri",
        help="AMQP address of the broker, or of the servers of a cluster: amqp://HOST:PORT,HOST:PORT.",
    ),
]
CaOption = Annotated[
    Path | None,
    typer.Option(
        "--ca", help="PEM file with the authority of an amqps:// broker. Default: the system's."
    ),
]
CertOption = Annotated[
    Path | None, typer.Option("--cert", help="PEM file with a client certificate to show.")
]
KeyOption = Annotated[
    Path | None, typer.Option("--key", help="PEM file with its private key. Default: in --cert.")
]
ModeOption = Annotated[
    Mode,
    typer.Option(
        "--mode",
        help="transient: no confirms, no acknowledgements. confirm: both. durable: as confirm, "
        "with persistent messages and durable queues. fanout: one publisher into many bounded "
        "queues "
        "without consumers (measures ISR).",
    ),
]
SizeOption = Annotated[int, typer.Option("--size", help="Size of each message body in bytes.")]
SecondsOption = Annotated[
    float | None,
    typer.Option("--seconds", min=0.1, help="Publish for this many seconds (default 5)."),
]
MessagesOption = Annotated[
    int | None, typer.Option("--messages", min=1, help="Publish this many messages in total.")
]
RateOption = Annotated[
    float | None,
    typer.Option("--rate", min=0.1, help="Limit to this many publishes per second in total."),
]
PairsOption = Annotated[
    int | None,
    typer.Option(
        "--pairs", min=1, help="Number of publishers, each with its own queue and consumer."
    ),
]
PublishersOption = Annotated[
    int | None, typer.Option("--publishers", min=1, help="Number of publishing connections.")
]
ConsumersOption = Annotated[
    int | None,
    typer.Option("--consumers", min=0, help="Number of consuming connections; may be 0."),
]
QueuesOption = Annotated[
    int | None, typer.Option("--queues", min=1, help="Number of queues each message is routed to.")
]
ConfirmOption = Annotated[
    int | None,
    typer.Option("--confirm", min=0, help="Maximum of unconfirmed publishes; 0: no confirms."),
]
NoAckOption = Annotated[
    bool | None, typer.Option("--no-ack/--ack", help="Consume without acknowledgements.")
]
PrefetchOption = Annotated[
    int | None, typer.Option("--prefetch", min=0, help="Maximum of unacknowledged deliveries.")
]
PersistentOption = Annotated[
    bool | None, typer.Option("--persistent/--transient", help="Delivery mode of the messages.")
]
ExchangeOption = Annotated[
    str | None, typer.Option("--exchange", help="Publish here; declared as fanout if missing.")
]
RoutingKeyOption = Annotated[
    str | None, typer.Option("--routing-key", help="Routing key of every publish.")
]
QueueOption = Annotated[
    str | None,
    typer.Option("--queue", help="Name of the queue, or prefix of several; kept afterwards."),
]
LedgerOption = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        file_okay=False,
        help="Directory to record what each client published, got confirmed and received in, for "
        " `penstock pipeline audit`.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def command(
    uri: UriOption = "amqp://guest:guest@localhost:5672",
    ca: CaOption = None,
    cert: CertOption = None,
    key: KeyOption = None,
    mode: ModeOption = Mode.CONFIRM,
    size: SizeOption = 100,
    seconds: SecondsOption = None,
    messages: MessagesOption = None,
    rate: RateOption = None,
    pairs: PairsOption = None,
    publishers: PublishersOption = None,
    consumers: ConsumersOption = None,
    queues: QueuesOption = None,
    confirm: ConfirmOption = None,
    no_ack: NoAckOption = None,
    prefetch: PrefetchOption = None,
    persistent: PersistentOption = None,
    exchange: ExchangeOption = None,
    routing_key: RoutingKeyOption = None,
    queue: QueueOption = None,
    ledger: LedgerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put a measured load on a broker and account for every message.

    Prints the publish rate, the internal switching rate (publishes times the queues each one
    reaches), the external switching rate (what leaves to consumers), latencies and the account:
    lost, duplicated, out of order. Exit code 1: a confirmed message was lost. 3: the run failed.
    """
    try:
        plan = make_plan(
            uri=with_certificates(uri, ca, cert, key),
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
            ledger=None if ledger is None else str(ledger),
        )
    except PlanRefused as refused:
        raise typer.BadParameter(str(refused)) from refused
    raise typer.Exit(run_and_print(plan, as_json=as_json))


def with_certificates(uri: str, ca: Path | None, cert: Path | None, key: Path | None) -> str:
    """The address with the files of TLS in it, under RabbitMQ's names."""
    files = {"cacertfile": ca, "certfile": cert, "keyfile": key}
    named = {name: str(file) for name, file in files.items() if file is not None}
    if not named:
        return uri
    if not uri.startswith("amqps://"):
        raise typer.BadParameter("--ca, --cert and --key need an amqps:// address in --uri")
    if key is not None and cert is None:
        raise typer.BadParameter("--key needs --cert FILE")
    return f"{uri}{'&' if '?' in uri else '?'}{urlencode(named)}"


def run_and_print(plan: Plan, *, as_json: bool) -> int:
    """The exit code."""
    errors = Console(stderr=True)
    try:
        outcome = run_shown(plan, errors, live=not as_json)
    except (ClientError, RunFailed) as error:
        errors.print(explained(error), style="red", highlight=False)
        return COULD_NOT_RUN
    if as_json:
        print(json.dumps({"plan": described(plan), **outcome.as_json()}))
    else:
        Console().print(outcome_table(plan, outcome, f"penstock load, {plan.mode}"))
    if outcome.broke_a_promise:
        return BROKEN_PROMISE
    return COULD_NOT_RUN if outcome.faults else 0


def run_shown(plan: Plan, console: Console, *, live: bool) -> Outcome:
    if not live:
        return run_plan(plan, unwatched)
    with LiveDisplay(plan, console) as display:
        return run_plan(plan, display.show)


def run_plan(plan: Plan, watch: Callable[[Snapshot], None]) -> Outcome:
    faucets, sinks = Crew(plan, watch).run()
    return conclude(plan, faucets, sinks)


def unwatched(snapshot: Snapshot) -> None:
    """For runs without a display."""


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
    """An error as text: what failed, and what to do."""
    if isinstance(error, ConnectFailed):
        tried = "\n".join(f"  {address}: {reason}" for address, reason in error.attempts)
        return (
            f"Cannot connect to a broker. Tried:\n{tried}\n"
            "Check that it is running (`penstock serve` starts one) and that --uri is correct."
        )
    if isinstance(error, LoginRefused):
        return (
            f"The broker refused the login: {error}\n"
            "Check user, password and virtual host in --uri; guest can log in from localhost only."
        )
    return f"The run failed: {error}"
