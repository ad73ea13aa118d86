"""What is looked at before rows are staged, on the broker's loop: everything that a publisher of
AMQP would be refused for, so that a commit can only succeed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.carried_rows import count_rows, decode_some
from penstock.broker.errors import AccessRefused, NotFound, PreconditionFailed
from penstock.broker.exchanges.delayed import DelayedExchange
from penstock.broker.permissions import Permission, ResourceKind
from penstock.broker.routing import resolve
from penstock.dialects.amqp091.properties import MessageProperties
from penstock.server.http.problems import Problem
from penstock.server.http.vhost_access import enter
from penstock.wire.amqp091.content import body_size_of
from penstock.wire.amqp091.errors import ChannelFault
from penstock.wire.octets import Malformed

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.broker.exchanges.exchange import Exchange
    from penstock.broker.message import Address, Message, Properties
    from penstock.broker.permissions import Access
    from penstock.broker.vhost import VirtualHost
    from penstock.node.node import Node

# Rows that are decoded in one step on the broker's loop: a few milliseconds.
STEP_ROWS: Final = 1_000


class Staging:
    """One request to stage rows. Held by its page, used on the broker's loop."""

    def __init__(
        self, user: str, vhost: str, rows: bytes, exchange: str | None, mandatory: bool
    ) -> None:
        self._user = user
        self._vhost = vhost
        self._rows = rows
        # One that is looked at whether or not a row names it.
        self._exchange = exchange
        # Whether rows that reach no queue are refused.
        self._mandatory = mandatory

    def decoded(self, node: Node) -> Generator[None, None, list[Message]]:
        """In steps; the messages may be published as far as one can say now."""
        if node.container.alarm:
            raise Problem(
                503,
                f"publishers are blocked: {node.container.alarm}",
                "Try again later.",
                headers={"Retry-After": "1"},
            )
        vhost, access = enter(node, self._user, self._vhost)
        check = RowCheck(vhost, access, self._user, self._mandatory)
        if self._exchange is not None:
            check.exchange(self._exchange)
        decoder = node.state.streams.decoder
        count = count_rows(self._rows)
        found: list[Message] = []
        for first in range(0, count, STEP_ROWS):
            try:
                messages = decode_some(self._rows, first, min(first + STEP_ROWS, count), decoder)
            except (Malformed, ChannelFault) as error:
                raise PreconditionFailed(f"the header of a row is malformed: {error}") from None
            check.look_at(messages)
            found.extend(messages)
            yield
        check.end(count)
        return found


class RowCheck:
    """What was seen in the rows so far. Addresses and properties are shared between messages, so
    each is looked at once.
    """

    def __init__(self, vhost: VirtualHost, access: Access, user: str, mandatory: bool) -> None:
        self._vhost = vhost
        self._access = access
        self._user = user
        self._mandatory = mandatory
        self._exchanges: dict[Address, Exchange] = {}
        self._sizes: dict[Properties, int] = {}
        # Whether messages of an address are routed by it alone, and reach a queue.
        self._reach: dict[Address, bool] = {}
        self._unroutable_count = 0
        self._unroutable: Address | None = None

    def look_at(self, messages: list[Message]) -> None:
        for message in messages:
            size = self._sizes.get(message.properties)
            if size is None:
                size = self._size_in(message.properties)
                self._sizes[message.properties] = size
            if size >= 0 and size != len(message.body):
                raise PreconditionFailed(
                    f"the header of a row says {size} octets of body, there are {len(message.body)}"
                )
            exchange = self._exchanges.get(message.address)
            if exchange is None:
                exchange = self.exchange(message.address.exchange)
                self._exchanges[message.address] = exchange
            if self._mandatory and not self._reaches(exchange, message):
                self._unroutable_count += 1
                self._unroutable = self._unroutable or message.address

    def end(self, count: int) -> None:
        """Raises when rows reach no queue that should."""
        if self._unroutable is not None:
            raise Problem(
                409,
                f"{self._unroutable_count} of {count} rows reach no queue, one of them with the "
                f"exchange '{self._unroutable.exchange}' and the routing key "
                f"'{self._unroutable.routing_key}'",
                "Bind a queue there, or leave the option mandatory out.",
                facts={"unroutable": self._unroutable_count},
            )

    def _size_in(self, properties: Properties) -> int:
        """Of the body, as the header says; -1 when it does not."""
        if not isinstance(properties, MessageProperties):
            return -1
        if properties.user_id is not None and properties.user_id != self._user:
            raise PreconditionFailed(
                f"user_id property set to '{properties.user_id}' but authenticated user was "
                f"'{self._user}'"
            )
        return body_size_of(properties.header)

    def exchange(self, name: str) -> Exchange:
        self._access.check(Permission.WRITE, ResourceKind.EXCHANGE, name)
        exchange = self._vhost.exchanges.get(name)
        if exchange is None:
            raise NotFound(f"no exchange '{name}' in vhost '{self._vhost.name}'")
        if exchange.internal:
            raise AccessRefused(
                f"cannot publish to internal exchange '{name}' in vhost '{self._vhost.name}'"
            )
        if isinstance(exchange, DelayedExchange):
            raise PreconditionFailed(
                f"exchange '{name}' in vhost '{self._vhost.name}' delays messages, which a sink "
                "cannot do; publish to it over AMQP"
            )
        return exchange

    def _reaches(self, exchange: Exchange, message: Message) -> bool:
        address = message.address
        known = self._reach.get(address)
        if known is not None and not message.properties.has_extra_keys:
            return known
        route = resolve(self._vhost, exchange, address.routing_key, message.properties)
        if route.cacheable:
            self._reach[address] = bool(route.queues)
        return bool(route.queues)
