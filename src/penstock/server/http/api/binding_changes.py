"""Bindings: bind and unbind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from penstock.broker.topology import BindExchange, BindQueue, UnbindExchange, UnbindQueue
from penstock.server.http.api.binding_keys import (
    exchange_name,
    find_meant,
    properties_key,
    routing_key_in,
)
from penstock.server.http.api.changes import changed
from penstock.server.http.api.operation import NO_CONTENT, Created, Operation
from penstock.server.http.api.schema import ARGUMENTS, TEXT, arguments_in, object_of
from penstock.server.http.problems import Problem

if TYPE_CHECKING:
    from penstock.broker.exchanges.exchange import Binding
    from penstock.broker.vhost import VirtualHost
    from penstock.server.http.api.changes import ChangeTurn
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine

_START: Final = "/api/bindings/{vhost}/e/{source}"
_BODY: Final = object_of({}, {"routing_key": TEXT, "arguments": ARGUMENTS})


class BindingChanges:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "POST", f"{_START}/q/{{queue}}", self.bind_queue,
                "Bind a queue. Location names the binding.", "bindings",
                body=_BODY, is_body_optional=True,
            ),
            Operation(
                "POST", f"{_START}/e/{{destination}}", self.bind_exchange,
                "Bind an exchange to another one. Location names the binding.", "bindings",
                body=_BODY, is_body_optional=True,
            ),
            Operation(
                "DELETE", f"{_START}/q/{{queue}}/{{properties_key}}", self.unbind_queue,
                "Unbind a queue", "bindings",
            ),
            Operation(
                "DELETE", f"{_START}/e/{{destination}}/{{properties_key}}", self.unbind_exchange,
                "Unbind an exchange from another one", "bindings",
            ),
        ]  # fmt: skip

    async def bind_queue(self, call: ApiRequest) -> object:
        queue = call.named("queue")
        key, arguments = _asked(call)
        return await self._bind(call, BindQueue(queue, _source(call), key, arguments), queue)

    async def bind_exchange(self, call: ApiRequest) -> object:
        destination = exchange_name(call.named("destination"))
        key, arguments = _asked(call)
        command = BindExchange(destination, _source(call), key, arguments)
        return await self._bind(call, command, destination)

    async def _bind(
        self, call: ApiRequest, command: BindQueue | BindExchange, destination: str
    ) -> Created:
        vhost = call.named("vhost")
        await changed(self._line, call, lambda turn: turn.declare(vhost, command))
        key = properties_key(command.routing_key, command.arguments)
        # Relative to the path of the request, as RabbitMQ says it.
        name = quote(destination, safe="", errors="surrogateescape")
        return Created(True, f"{name}/{quote(key, safe='~')}")

    async def unbind_queue(self, call: ApiRequest) -> object:
        name = call.named("queue")

        def unbind(turn: ChangeTurn) -> None:
            vhost = turn.principal(call.named("vhost")).vhost
            queue = vhost.queue(name)
            found = _found(call, vhost, vhost.bindings.to_destination(queue))
            turn.declare(
                vhost.name,
                UnbindQueue(name, found.source.name, found.routing_key, found.arguments),
            )

        await changed(self._line, call, unbind)
        return NO_CONTENT

    async def unbind_exchange(self, call: ApiRequest) -> object:
        name = exchange_name(call.named("destination"))

        def unbind(turn: ChangeTurn) -> None:
            vhost = turn.principal(call.named("vhost")).vhost
            exchange = vhost.exchange(name)
            found = _found(call, vhost, vhost.bindings.to_destination(exchange))
            turn.declare(
                vhost.name,
                UnbindExchange(name, found.source.name, found.routing_key, found.arguments),
            )

        await changed(self._line, call, unbind)
        return NO_CONTENT


def _source(call: ApiRequest) -> str:
    return exchange_name(call.named("source"))


def _asked(call: ApiRequest) -> tuple[str, dict[str, object]]:
    return routing_key_in(call.body), arguments_in(call.body)


def _found(call: ApiRequest, vhost: VirtualHost, arriving: list[Binding]) -> Binding:
    source = vhost.exchange(_source(call))
    key = call.named("properties_key")
    found = find_meant(key, [binding for binding in arriving if binding.source is source])
    if found is None:
        raise Problem(404, f"no such binding from exchange '{source.name}' in vhost '{vhost.name}'")
    return found
