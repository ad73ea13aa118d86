"""Bindings: /api/bindings, and those of one queue or exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.bound_exchanges import DEFAULT_EXCHANGE
from penstock.server.http.api.binding_keys import exchange_name, find_meant
from penstock.server.http.api.binding_rows import (
    BINDING_SCHEMA,
    BindingRecord,
    DefaultBindingRecord,
)
from penstock.server.http.api.operation import Operation, RecordList
from penstock.server.http.api.visibility import (
    is_listed,
    not_found,
    visible_vhost,
    visible_vhosts,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from penstock.broker.exchanges.exchange import Binding, Exchange
    from penstock.broker.queues.message_queue import MessageQueue
    from penstock.broker.vhost import VirtualHost
    from penstock.node.node import Node
    from penstock.server.http.api.operation import ApiRequest, Page
    from penstock.server.http.line import BrokerLine
    from penstock.server.http.login import Caller

# Bindings in one step on the broker's loop: less than a millisecond.
STEP_COUNT: Final = 500

AnyBinding = BindingRecord | DefaultBindingRecord

_TO_QUEUE: Final = "/api/bindings/{vhost}/e/{exchange}/q/{queue}"
_TO_EXCHANGE: Final = "/api/bindings/{vhost}/e/{exchange}/e/{destination}"


class BindingPages:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        exchange = "/api/exchanges/{vhost}/{name}/bindings"
        return [
            _list("/api/bindings", self.all, "All bindings"),
            _list("/api/bindings/{vhost}", self.all, "The bindings of one virtual host"),
            _list("/api/queues/{vhost}/{name}/bindings", self.of_queue, "The bindings of a queue"),
            _list(f"{exchange}/source", self.from_exchange, "The bindings from an exchange"),
            _list(f"{exchange}/destination", self.to_exchange, "The bindings to an exchange"),
            _list(_TO_QUEUE, self.between, "The bindings between an exchange and a queue"),
            _list(_TO_EXCHANGE, self.between, "The bindings between two exchanges"),
            _show(f"{_TO_QUEUE}/{{properties}}", self.one, "A binding to a queue"),
            _show(f"{_TO_EXCHANGE}/{{properties}}", self.one, "A binding to an exchange"),
        ]

    async def all(self, call: ApiRequest) -> object:
        vhost = call.named("vhost") if "vhost" in call.request.path_params else ""
        return RecordList(await self._line.walk(lambda node: _all(node, call.caller, vhost)))

    async def of_queue(self, call: ApiRequest) -> object:
        vhost, name = call.named("vhost"), call.named("name")
        return RecordList(
            await self._line.walk(lambda node: _of_queue(node, call.caller, vhost, name))
        )

    async def from_exchange(self, call: ApiRequest) -> object:
        return await self._of_exchange(call, True)

    async def to_exchange(self, call: ApiRequest) -> object:
        return await self._of_exchange(call, False)

    async def _of_exchange(self, call: ApiRequest, is_source: bool) -> object:
        vhost, name = call.named("vhost"), exchange_name(call.named("name"))
        return RecordList(
            await self._line.walk(
                lambda node: _of_exchange(node, call.caller, vhost, name, is_source)
            )
        )

    async def between(self, call: ApiRequest) -> object:
        found = await self._between(call)
        return RecordList(found)

    async def one(self, call: ApiRequest) -> object:
        key = call.named("properties")
        record = find_meant(key, await self._between(call))
        if record is None:
            raise not_found("binding", key)
        return record.row()

    async def _between(self, call: ApiRequest) -> list[AnyBinding]:
        vhost, source = call.named("vhost"), exchange_name(call.named("exchange"))
        if "queue" in call.request.path_params:
            queue = call.named("queue")
            return await self._line.walk(
                lambda node: _to_queue(node, call.caller, vhost, source, queue)
            )
        destination = exchange_name(call.named("destination"))
        return await self._line.walk(
            lambda node: _to_exchange(node, call.caller, vhost, source, destination)
        )


def _list(path: str, page: Page, summary: str) -> Operation:
    return Operation("GET", path, page, summary, "bindings", answer=BINDING_SCHEMA, is_list=True)


def _show(path: str, page: Page, summary: str) -> Operation:
    return Operation("GET", path, page, summary, "bindings", answer=BINDING_SCHEMA)


# On the broker's loop.


def _all(node: Node, caller: Caller, name: str) -> Generator[None, None, list[AnyBinding]]:
    found: list[AnyBinding] = []
    for vhost in visible_vhosts(node, caller, name):
        yield from _add_default(vhost, found)
        for exchange in list(vhost.exchanges.values()):
            yield from _add(vhost, vhost.bindings.from_source(exchange), found)
    return found


def _of_queue(
    node: Node, caller: Caller, vhost: str, name: str
) -> Generator[None, None, list[AnyBinding]]:
    host = visible_vhost(node, caller, vhost)
    found: list[AnyBinding] = [DefaultBindingRecord(host.name, name)]
    yield from _add(host, host.bindings.to_destination(_queue(host, name)), found)
    return found


def _of_exchange(
    node: Node, caller: Caller, vhost: str, name: str, is_source: bool
) -> Generator[None, None, list[AnyBinding]]:
    host = visible_vhost(node, caller, vhost)
    exchange = _exchange(host, name)
    found: list[AnyBinding] = []
    if is_source and name == DEFAULT_EXCHANGE:
        yield from _add_default(host, found)
    bindings = host.bindings
    listed = bindings.from_source(exchange) if is_source else bindings.to_destination(exchange)
    yield from _add(host, listed, found)
    return found


def _to_queue(
    node: Node, caller: Caller, vhost: str, source: str, name: str
) -> Generator[None, None, list[AnyBinding]]:
    """Empty also when there is no such queue or exchange, as in RabbitMQ."""
    host = visible_vhost(node, caller, vhost)
    found: list[AnyBinding] = []
    queue = host.queues.get(name)
    if queue is None or not is_listed(queue):
        return found
    if source == DEFAULT_EXCHANGE:
        found.append(DefaultBindingRecord(host.name, name))
    bindings = [
        binding for binding in host.bindings.to_destination(queue) if binding.source.name == source
    ]
    yield from _add(host, bindings, found)
    return found


def _to_exchange(
    node: Node, caller: Caller, vhost: str, source: str, name: str
) -> Generator[None, None, list[AnyBinding]]:
    host = visible_vhost(node, caller, vhost)
    found: list[AnyBinding] = []
    exchange = host.exchanges.get(name)
    if exchange is not None:
        bindings = [
            binding
            for binding in host.bindings.to_destination(exchange)
            if binding.source.name == source
        ]
        yield from _add(host, bindings, found)
    return found


def _add(
    vhost: VirtualHost, bindings: Iterable[Binding], found: list[AnyBinding]
) -> Generator[None, None, None]:
    for binding in bindings:
        found.append(BindingRecord(vhost.name, binding))
        if len(found) % STEP_COUNT == 0:
            yield


def _add_default(vhost: VirtualHost, found: list[AnyBinding]) -> Generator[None, None, None]:
    for queue in list(vhost.queues.values()):
        if is_listed(queue):
            found.append(DefaultBindingRecord(vhost.name, queue.name))
            if len(found) % STEP_COUNT == 0:
                yield


def _queue(vhost: VirtualHost, name: str) -> MessageQueue:
    queue = vhost.queues.get(name)
    if queue is None or not is_listed(queue):
        raise not_found("queue", name)
    return queue


def _exchange(vhost: VirtualHost, name: str) -> Exchange:
    exchange = vhost.exchanges.get(name)
    if exchange is None:
        raise not_found("exchange", name)
    return exchange
