"""Exchanges: declare and delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.names import without_line_breaks
from penstock.broker.topology import DeclareExchange, DeleteExchange
from penstock.server.http.api.binding_keys import exchange_name
from penstock.server.http.api.changes import changed
from penstock.server.http.api.operation import NO_CONTENT, Created, Operation, Query
from penstock.server.http.api.schema import (
    ARGUMENTS,
    FLAG,
    TEXT,
    arguments_in,
    flag_in,
    object_of,
    text_of,
)

if TYPE_CHECKING:
    from penstock.server.http.api.changes import ChangeTurn
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine

_PATH: Final = "/api/exchanges/{vhost}/{name}"
_BODY: Final = object_of(
    {},
    {
        "type": TEXT,
        "durable": FLAG,
        "auto_delete": FLAG,
        "internal": FLAG,
        "arguments": ARGUMENTS,
    },
)


class ExchangeChanges:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "PUT", _PATH, self.declare, "Declare an exchange; its type is direct if not given",
                "exchanges", body=_BODY, is_body_optional=True,
            ),
            Operation(
                "DELETE", _PATH, self.delete, "Delete an exchange", "exchanges",
                queries=(Query("if-unused", "true deletes it only when nothing is bound to it."),),
            ),
        ]  # fmt: skip

    async def declare(self, call: ApiRequest) -> object:
        vhost = call.named("vhost")
        body = call.body
        command = DeclareExchange(
            exchange_name(without_line_breaks(call.named("name"))),
            text_of(body, "type", "direct"),
            flag_in(body, "durable"),
            flag_in(body, "auto_delete"),
            flag_in(body, "internal"),
            arguments=arguments_in(body),
        )

        def declare(turn: ChangeTurn) -> Created:
            is_new = command.name not in turn.principal(vhost).vhost.exchanges
            turn.declare(vhost, command)
            return Created(is_new)

        return await changed(self._line, call, declare)

    async def delete(self, call: ApiRequest) -> object:
        vhost, name = call.named("vhost"), exchange_name(call.named("name"))
        command = DeleteExchange(name, call.is_asked("if-unused"))

        def delete(turn: ChangeTurn) -> None:
            turn.principal(vhost).vhost.exchange(name)
            turn.declare(vhost, command)

        await changed(self._line, call, delete)
        return NO_CONTENT
