"""Publishing one message over HTTP: /api/exchanges/{vhost}/{name}/publish.

Meant for tests and repairs, as in RabbitMQ. The answer comes when the message is safe: a publish here
is a publish with a confirm.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final

from starlette.concurrency import run_in_threadpool

from penstock.broker.access.permissions import Permission
from penstock.broker.errors import AccessRefused, PreconditionFailed
from penstock.broker.message import NOBODY, Address, Message, Publisher
from penstock.broker.publishing.publish import Outcome, publish
from penstock.broker.publishing.target import resolve_target
from penstock.dialects.amqp091.reply_to import PSEUDO_QUEUE, is_direct_reply
from penstock.server.http.api.binding_keys import exchange_name, routing_key_in
from penstock.server.http.api.changes import ChangeTurn, actor_of, changed
from penstock.server.http.api.message_properties import properties_in
from penstock.server.http.api.operation import BodyPlaces, Operation
from penstock.server.http.api.schema import BOOLEAN, TABLE, TEXT, object_of, text_of
from penstock.server.http.problems import Problem
from penstock.server.http.settings import (
    PUBLISH_BYTES_MAX,
    PUBLISHES_AT_ONCE,
    PUBLISHES_OF_USER,
)

if TYPE_CHECKING:
    from penstock.broker.exchanges.exchange import Exchange
    from penstock.dialects.amqp091.properties import MessageProperties
    from penstock.dialects.principal import Principal
    from penstock.node.node import Node
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine

# A message that somebody holds for longer (a fault on demand, a stream that cannot write) is answered
# with 503; whether it is kept is not known then, as when a connection is lost before its confirm.
HELD_SECONDS: Final = 20.0
_BODY: Final = object_of(
    {"properties": TABLE, "routing_key": TEXT, "payload": TEXT, "payload_encoding": TEXT}
)


class PublishPage:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "POST",
                "/api/exchanges/{vhost}/{name}/publish",
                self.publish,
                "Publish a message. `payload_encoding` is string or base64. `routed` says whether "
                "a queue has taken it.",
                "exchanges",
                body=_BODY,
                answer=object_of({"routed": BOOLEAN}),
                body_bytes_max=PUBLISH_BYTES_MAX,
                admission=self.admit,
                places=BodyPlaces("publish", PUBLISHES_AT_ONCE, PUBLISHES_OF_USER),
            )
        ]

    async def admit(self, call: ApiRequest) -> None:
        vhost, name = call.named("vhost"), exchange_name(call.named("name"))
        actor, caller = actor_of(call), call.caller

        def look(node: Node, now: int) -> None:
            _published_to(ChangeTurn(node, now, actor, caller).principal(vhost), name)

        await self._line.ask(look)

    async def publish(self, call: ApiRequest) -> object:
        vhost = call.named("vhost")
        wanted = await run_in_threadpool(
            WantedPublish, exchange_name(call.named("name")), call.body
        )
        outcome = await changed(self._line, call, lambda turn: wanted.run(turn, vhost))
        receipt = wanted.receipt
        if receipt.is_held and not await self._line.until(
            lambda: not receipt.is_held, HELD_SECONDS
        ):
            raise Problem(
                503,
                f"the message was not confirmed in {HELD_SECONDS:.0f} s",
                "It may have been published. Look at the queue before you publish it again.",
            )
        is_routed = outcome in {Outcome.ENQUEUED, Outcome.DELAYED} and not receipt.is_refused
        return {"routed": is_routed}


class Receipt(Publisher):
    """Waits for one message's confirm. Held by its request."""

    def __init__(self) -> None:
        self.is_held = False
        self.is_refused = False

    def held(self, sequence: int) -> None:
        self.is_held = True

    def completed(self, sequence: int) -> None:
        self.is_held = False

    def refused(self, sequence: int) -> None:
        self.is_refused = True


class WantedPublish:
    """One publish: decoded by the HTTP server, run on the broker's loop. Held by its request."""

    def __init__(self, exchange: str, body: dict[str, object]) -> None:
        given = body["properties"]
        assert isinstance(given, dict), "the body was checked"
        self._payload = _payload_in(body)
        self._properties = properties_in(given, len(self._payload))
        self._address = Address(exchange, routing_key_in(body), b"")
        self.receipt = Receipt()

    def run(self, turn: ChangeTurn, vhost: str) -> Outcome:
        principal = turn.principal(vhost)
        name, key = self._address.exchange, self._address.routing_key
        exchange = _published_to(principal, name)
        principal.check_topic(Permission.WRITE, exchange, key)
        principal.check_copies(name, self._properties)
        _check_properties(self._properties, turn.user)
        if is_direct_reply(self._address):
            raise PreconditionFailed("direct replies cannot be published over HTTP")
        if turn.node.container.alarm:
            raise Problem(
                503,
                f"publishers are blocked: {turn.node.container.alarm}",
                "Try again when the alarm is over.",
                headers={"Retry-After": "5"},
            )
        message = Message(self._address, self._properties, self._payload, NOBODY)
        message.publisher = self.receipt
        routing = principal.vhost.routing
        target = resolve_target(routing, exchange, self._address)
        interceptor = turn.node.container.interceptor
        outcome = publish(routing, target, message, interceptor, None, turn.now)
        if message.holds == 0:
            message.publisher = None
        return outcome


def _published_to(principal: Principal, name: str) -> Exchange:
    """An exchange that this user may publish to."""
    principal.check_publish(name)
    exchange = principal.vhost.exchange(name)
    if exchange.internal:
        raise AccessRefused(
            f"cannot publish to internal exchange '{name}' in vhost '{principal.vhost.name}'"
        )
    return exchange


def _check_properties(properties: MessageProperties, user: str) -> None:
    if properties.user_id not in {None, user}:
        raise PreconditionFailed(
            f"user_id property set to '{properties.user_id}' but authenticated user was '{user}'"
        )
    if properties.reply_to == PSEUDO_QUEUE:
        raise PreconditionFailed("fast reply consumer does not exist")


def _payload_in(body: dict[str, object]) -> bytes:
    payload, encoding = text_of(body, "payload"), text_of(body, "payload_encoding")
    if encoding == "string":
        return payload.encode(errors="surrogateescape")
    if encoding == "base64":
        try:
            return base64.b64decode(payload, validate=True)
        except (binascii.Error, ValueError):
            raise Problem(400, "the payload is not valid base64") from None
    raise Problem(400, f"payload_encoding '{encoding[:100]}' is not one of: string, base64")
