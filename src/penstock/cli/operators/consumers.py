"""`penstock consumers`: list consumers."""

from penstock.cli.administering.session import OperatorSession, operator
from penstock.cli.administering.tables import column, number

_COLUMNS = (
    column("queue", "queue", "name"),
    column("tag", "consumer_tag"),
    column("channel", "channel_details", "name"),
    number("prefetch", "prefetch_count"),
    column("acks", "ack_required"),
    column("active", "active"),
    column("exclusive", "exclusive"),
    column("vhost", "queue", "vhost"),
    column("arguments", "arguments"),
)


@operator(has_vhost=True)
def command(session: OperatorSession) -> None:
    """List consumers.

    Examples:
      penstock consumers
      penstock consumers --vhost orders --json

    """
    session.show_table(_COLUMNS, lambda: session.listed("consumers"))
