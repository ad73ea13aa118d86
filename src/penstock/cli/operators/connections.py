"""`penstock connections`: list connections."""

from penstock.cli.administering.figures import rate_text
from penstock.cli.administering.session import OperatorSession, operator
from penstock.cli.administering.tables import Column, Row, column, found, number

_COLUMNS = (
    column("name", "name"),
    column("user", "user"),
    column("state", "state"),
    number("channels", "channels"),
    Column("in", lambda row: rate_text(found(row, "recv_oct_details", "rate")), True),
    Column("out", lambda row: rate_text(found(row, "send_oct_details", "rate")), True),
    column("vhost", "vhost"),
    column("protocol", "protocol"),
    column("tls", "ssl_protocol"),
    column("client name", "user_provided_name"),
    Column("client", lambda row: found(row, "client_properties", "product")),
)


@operator(has_vhost=True)
def command(session: OperatorSession) -> None:
    """List connections. `penstock close` closes one.

    Examples:
      penstock connections
      penstock connections --vhost orders --watch
      penstock connections --json

    """
    session.show_table(_COLUMNS, lambda: _rows(session))


def _rows(session: OperatorSession) -> list[Row]:
    if session.asked_vhost:
        return session.api.rows("vhosts", session.asked_vhost, "connections")
    return session.api.rows("connections")
