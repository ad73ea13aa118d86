"""Exchanges: /api/exchanges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.definitions.exporting import exported_table
from penstock.server.http.api.binding_keys import exchange_name
from penstock.server.http.api.operation import Operation, RecordList
from penstock.server.http.api.queue_rows import PolicyChoice
from penstock.server.http.api.schema import BOOLEAN, TABLE, TEXT, Schema, list_of
from penstock.server.http.api.stats import row_schema
from penstock.server.http.api.visibility import not_found, visible_vhost, visible_vhosts

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.broker.exchanges.exchange import Exchange
    from penstock.node.node import Node
    from penstock.server.http.api.listing import Row
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine
    from penstock.server.http.login import Caller

# Exchanges in one step on the broker's loop: less than a millisecond.
STEP_COUNT: Final = 500

_PROPERTIES: Final[dict[str, Schema]] = {
    "arguments": TABLE,
    "auto_delete": BOOLEAN,
    "durable": BOOLEAN,
    "internal": BOOLEAN,
    "name": TEXT,
    "policy": TEXT,
    "replicate": TEXT,
    "type": TEXT,
    "vhost": TEXT,
}
_ROW: Final = row_schema(_PROPERTIES)
_SHOWN: Final = row_schema({**_PROPERTIES, "incoming": list_of(TABLE), "outgoing": list_of(TABLE)})


class ExchangeRecord:
    """One exchange. What it reads of it never changes."""

    __slots__ = ("_choice", "_exchange", "_vhost")

    def __init__(self, vhost: str, exchange: Exchange, choice: PolicyChoice) -> None:
        self._vhost = vhost
        self._exchange = exchange
        self._choice = choice

    @property
    def name(self) -> str:
        return self._exchange.name

    def row(self) -> Row:
        exchange = self._exchange
        row: Row = {
            "arguments": exported_table(exchange.arguments),
            "auto_delete": exchange.auto_delete,
            "durable": exchange.durable,
            "internal": exchange.internal,
            "name": exchange.name,
            "replicate": exchange.level.value,
            "type": exchange.kind,
            "vhost": self._vhost,
        }
        policy = self._choice.of_exchange(exchange.name)
        if policy is not None:
            row["policy"] = policy.name
        return row


class ExchangePages:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        topic = "exchanges"
        return [
            Operation(
                "GET",
                "/api/exchanges",
                self.listed,
                "All exchanges",
                topic,
                answer=_ROW,
                is_list=True,
            ),
            Operation(
                "GET",
                "/api/exchanges/{vhost}",
                self.listed,
                "The exchanges of one virtual host",
                topic,
                answer=_ROW,
                is_list=True,
            ),
            Operation(
                "GET",
                "/api/exchanges/{vhost}/{name}",
                self.show,
                "An exchange; amq.default is the default exchange",
                topic,
                answer=_SHOWN,
            ),
        ]

    async def listed(self, call: ApiRequest) -> object:
        vhost = call.named("vhost") if "vhost" in call.request.path_params else ""
        return RecordList(await self._line.walk(lambda node: _records(node, call.caller, vhost)))

    async def show(self, call: ApiRequest) -> object:
        vhost, name = call.named("vhost"), exchange_name(call.named("name"))
        record = await self._line.ask(lambda node, now: _record(node, call.caller, vhost, name))
        # RabbitMQ has these figures in another mode only, and its clients read the lists.
        return {**record.row(), "incoming": [], "outgoing": []}


# On the broker's loop.


def _record(node: Node, caller: Caller, vhost: str, name: str) -> ExchangeRecord:
    host = visible_vhost(node, caller, vhost)
    exchange = host.exchanges.get(name)
    if exchange is None:
        raise not_found("exchange", name)
    return ExchangeRecord(vhost, exchange, PolicyChoice(host))


def _records(node: Node, caller: Caller, vhost: str) -> Generator[None, None, list[ExchangeRecord]]:
    found: list[ExchangeRecord] = []
    for host in visible_vhosts(node, caller, vhost):
        choice = PolicyChoice(host)
        for exchange in list(host.exchanges.values()):
            found.append(ExchangeRecord(host.name, exchange, choice))
            if len(found) % STEP_COUNT == 0:
                yield
    return found
