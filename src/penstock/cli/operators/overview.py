"""`penstock overview`: the figures of the whole broker."""

from penstock.cli.administering.figures import rate_text
from penstock.cli.administering.session import OperatorSession, operator
from penstock.cli.administering.tables import Row, found


@operator()
def command(session: OperatorSession) -> None:
    """Show how many queues, connections and messages there are, and the rates.

    Examples:
      penstock overview
      penstock overview --watch 5
      penstock overview --json

    """
    session.show_row(lambda: session.api.row("overview"), _facts)


def _facts(row: Row) -> list[tuple[str, object]]:
    names = ("queues", "exchanges", "connections", "channels", "consumers")
    facts: list[tuple[str, object]] = [
        ("broker", f"{row.get('cluster_name')}, version {row.get('product_version')}")
    ]
    facts += [(name, found(row, "object_totals", name)) for name in names]
    facts += [
        ("messages ready", found(row, "queue_totals", "messages_ready")),
        ("messages unacknowledged", found(row, "queue_totals", "messages_unacknowledged")),
    ]
    for name, key in (
        ("published", "publish"),
        ("confirmed", "confirm"),
        ("delivered", "deliver_get"),
        ("acknowledged", "ack"),
        ("redelivered", "redeliver"),
    ):
        rate = rate_text(found(row, "message_stats", f"{key}_details", "rate"))
        facts.append((name, f"{found(row, 'message_stats', key) or 0} ({rate})"))
    return facts
