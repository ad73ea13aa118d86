"""`penstock channels`: list channels and AMQP 1.0 sessions."""

from penstock.cli.administering.figures import rate_text
from penstock.cli.administering.session import OperatorSession, operator
from penstock.cli.administering.tables import Column, Row, column, found, number

_COLUMNS = (
    column("name", "name"),
    column("user", "user"),
    number("consumers", "consumer_count"),
    number("unacked", "messages_unacknowledged"),
    number("unconfirmed", "messages_unconfirmed"),
    number("prefetch", "prefetch_count"),
    Column(
        "in", lambda row: rate_text(found(row, "message_stats", "publish_details", "rate")), True
    ),
    Column(
        "out",
        lambda row: rate_text(found(row, "message_stats", "deliver_get_details", "rate")),
        True,
    ),
    column("state", "state"),
    column("confirms", "confirm"),
    column("transactional", "transactional"),
    column("vhost", "vhost"),
)


@operator(has_vhost=True)
def command(session: OperatorSession) -> None:
    """List channels, and the sessions of AMQP 1.0 clients.

    Examples:
      penstock channels
      penstock channels --vhost orders --watch

    """
    session.show_table(_COLUMNS, lambda: _rows(session))


def _rows(session: OperatorSession) -> list[Row]:
    if session.asked_vhost:
        return session.api.rows("vhosts", session.asked_vhost, "channels")
    return session.api.rows("channels")
