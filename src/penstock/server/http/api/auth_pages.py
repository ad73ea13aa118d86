"""How to log in: /api/auth, /api/login, and how many logins there were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from penstock.server.http.api.operation import ANYBODY, MONITORING, Operation, RowList
from penstock.server.http.api.schema import BOOLEAN, COUNT, TEXT, object_of
from penstock.server.http.problems import Problem
from penstock.server.http.request_parts import body_of

if TYPE_CHECKING:
    from penstock.dialects.login_counts import LoginCounts
    from penstock.node.node import Node
    from penstock.server.http.api.listing import Row
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine
    from penstock.server.http.login import Doorkeeper

_FORM: Final = "application/x-www-form-urlencoded"
# RabbitMQ's keys. There is no other way in than the broker's own users.
_NO_UAA: Final = {"enable_uaa": False, "uaa_client_id": "", "uaa_location": ""}


class AuthPages:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine, door: Doorkeeper) -> None:
        self._line = line
        self._door = door

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "GET",
                "/api/auth",
                self.show,
                "Whether tokens of an OAuth 2 server are accepted, in RabbitMQ's words",
                "auth",
                allowed=ANYBODY,
                answer=object_of(
                    {"enable_uaa": BOOLEAN, "uaa_client_id": TEXT, "uaa_location": TEXT}
                ),
                is_public=True,
            ),
            Operation(
                "POST",
                "/api/login",
                self.log_in,
                "Check a user name and password. No cookie is set: every request logs in.",
                "auth",
                allowed=ANYBODY,
                body=object_of({"username": TEXT, "password": TEXT}),
                answer=TEXT,
                is_public=True,
                reads_body=True,
                body_types=(_FORM,),
            ),
            Operation(
                "GET",
                "/api/auth/attempts/{node}",
                self.attempts,
                "How many logins there were since the start of the broker, by protocol; those over "
                "WebSockets are among those of AMQP",
                "auth",
                allowed=MONITORING,
                answer=object_of(
                    {
                        "protocol": TEXT,
                        "auth_attempts": COUNT,
                        "auth_attempts_failed": COUNT,
                        "auth_attempts_succeeded": COUNT,
                    }
                ),
                is_list=True,
            ),
        ]

    async def show(self, call: ApiRequest) -> object:
        del call
        return dict(_NO_UAA)

    async def log_in(self, call: ApiRequest) -> object:
        form = parse_qs((await body_of(call.request)).decode(errors="replace"))
        name, password = form.get("username", [""])[0], form.get("password", [""])[0]
        if not name:
            raise Problem(401, "Login failed", "Send username=NAME&password=PASSWORD.")
        await self._door.check(call.request, name, password.encode(errors="replace"))
        return "ok"

    async def attempts(self, call: ApiRequest) -> object:
        del call

        def rows(node: Node, now: int) -> list[Row]:
            del now
            amqp091, amqp10 = node.amqp091.login_counts, node.amqp10.login_counts
            return [_row_of("amqp091", amqp091), _row_of("amqp10", amqp10)]

        return RowList([*await self._line.ask(rows), _row_of("http", self._door.counts)])


def _row_of(protocol: str, counts: LoginCounts) -> Row:
    """`protocol` in RabbitMQ's words."""
    return {
        "protocol": protocol,
        "auth_attempts": counts.failed + counts.succeeded,
        "auth_attempts_failed": counts.failed,
        "auth_attempts_succeeded": counts.succeeded,
    }
