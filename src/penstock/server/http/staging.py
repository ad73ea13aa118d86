"""The checks before rows are staged, on the broker's loop: everything for which an AMQP publish
would be refused, so that a commit can only succeed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.access.permissions import Permission, ResourceKind
from penstock.broker.errors import AccessRefused, NotFound, PreconditionFailed
from penstock.broker.exchanges.delayed import DelayedExchange
from penstock.broker.exchanges.kinds import TOPIC
from penstock.broker.sinks.commit_check import CommitCheck
from penstock.broker.sinks.row_check import NOT_SAID, RowCheck, RowJudge
from penstock.dialects.amqp091.properties import MessageProperties
from penstock.formats.octets import Malformed
from penstock.formats.stage_block import block_of
from penstock.server.http.problems import Problem
from penstock.server.http.vhost_access import enter
from penstock.wire.amqp091.content import body_size_of
from penstock.wire.amqp091.errors import ChannelFault

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.broker.access.permissions import Access
    from penstock.broker.access.topic_permissions import TopicAccessTable
    from penstock.broker.message import MessageDecoder
    from penstock.broker.vhost import VirtualHost
    from penstock.formats.stage_block import StagedRows
    from penstock.node.node import Node
    from penstock.server.http.login import Caller


class Staging:
    """One request to stage rows. Held by its page, used on the broker's loop."""

    def __init__(
        self,
        caller: Caller,
        vhost: str,
        rows: bytes,
        exchange: str | None,
        mandatory: bool,
        has_checksums: bool,
    ) -> None:
        self._caller = caller
        self._vhost = vhost
        self._rows = rows
        # An exchange that is checked whether or not a row names it.
        self._exchange = exchange
        # Whether rows that reach no queue are refused.
        self._mandatory = mandatory
        # Whether each row has its own checksum that is checked.
        self._has_checksums = has_checksums

    def checked(self, node: Node) -> Generator[None, None, StagedRows]:
        """Check the rows, in steps; they can be published in the present state of the broker."""
        if node.container.alarm:
            raise Problem(
                503,
                f"publishers are blocked: {node.container.alarm}",
                "Try again later.",
                headers={"Retry-After": "1"},
            )
        vhost, access = enter(node, self._caller, self._vhost)
        topics = node.state.topic_access
        judge = PublisherJudge(vhost, access, topics, node.state.streams.decoder)
        if self._exchange is not None:
            judge.check_exchange(self._exchange)
        check = RowCheck(self._rows, judge, self._has_checksums)
        while check.step():
            yield
        found = check.found()
        if self._mandatory:
            reach = CommitCheck(vhost, (), True)
            for count, payloads in found.parts:
                reach.add(block_of(0, count, payloads))
                yield
            check_reach(reach)
        return found


class PublisherJudge(RowJudge):
    """Decides whether a user may publish the rows."""

    def __init__(
        self,
        vhost: VirtualHost,
        access: Access,
        topics: TopicAccessTable,
        decoder: MessageDecoder,
    ) -> None:
        self._vhost = vhost
        self._access = access
        self._topics = topics
        self._decoder = decoder
        self._exchanges: set[str] = set()
        # Routing keys in the CC and BCC of a header.
        self._copies: dict[bytes, list[str]] = {}

    def see_address(self, exchange: str, routing_key: str) -> None:
        if exchange not in self._exchanges:
            self.check_exchange(exchange)
            self._exchanges.add(exchange)
        self._check_topic(exchange, routing_key)

    def has_copies(self, header: bytes) -> bool:
        return header in self._copies

    def see_copies(self, exchange: str, header: bytes) -> None:
        for key in self._copies[header]:
            self._check_topic(exchange, key)

    def _check_topic(self, exchange: str, routing_key: str) -> None:
        if self._vhost.exchanges[exchange].kind == TOPIC:
            self._topics.check(self._access, exchange, Permission.WRITE, routing_key)

    def see_header(self, header: bytes) -> int:
        try:
            properties = self._decoder.decode("", "", header, b"").properties
        except (Malformed, ChannelFault) as error:
            raise PreconditionFailed(f"the header of a row is malformed: {error}") from None
        if properties.has_extra_keys:
            self._copies[header] = properties.extra_keys()
        if not isinstance(properties, MessageProperties):
            return NOT_SAID
        if not properties.is_utf8:
            raise PreconditionFailed("the header of a row is malformed: a property is not UTF-8")
        if properties.user_id is not None and properties.user_id != self._access.user:
            raise PreconditionFailed(
                f"user_id property set to '{properties.user_id}' but authenticated user was "
                f"'{self._access.user}'"
            )
        return body_size_of(properties.header)

    def check_exchange(self, name: str) -> None:
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
                f"exchange '{name}' in vhost '{self._vhost.name}' is a delayed exchange, which "
                "sinks do not support; publish to it over AMQP"
            )


def check_reach(check: CommitCheck) -> None:
    """Raises when rows reach no queue and unroutable rows are refused."""
    address = check.unroutable_address
    if address is not None:
        raise Problem(
            409,
            f"{check.unroutable} of {check.count} rows are not routed to any queue, for example those "
            f"with exchange '{address.exchange}' and routing key '{address.routing_key}'",
            "Bind a queue, or omit the option mandatory.",
            facts={"unroutable": check.unroutable},
        )


def check_room(check: CommitCheck, waits: bool) -> None:
    """Raises when a queue that refuses publishes has no room for its rows."""
    found = check.refusing(waits)
    if found is None:
        return
    queue = found.queue
    limits = queue.settings
    facts: dict[str, object] = {"queue": queue.name, "rows": found.count, "octets": found.octets}
    if not found.can_ever_fit():
        raise Problem(
            409,
            f"queue '{queue.name}' can never hold a message of {found.octets_max} bytes: its "
            "limit is "
            f"{_limits(limits.max_length, limits.max_length_bytes)}, with overflow reject-publish",
            "Nothing was published. Raise the limit of the queue.",
            facts=facts,
        )
    raise Problem(
        409,
        f"queue '{queue.name}' rejects publishes when it is full, and has no room for the "
        f"{found.count} messages ({found.octets} bytes) of this batch: it holds "
        f"{queue.message_count} ({queue.ready_bytes} bytes) of at most "
        f"{_limits(limits.max_length, limits.max_length_bytes)}",
        "Nothing was published. Commit again when consumers have made room, or let the commit "
        'wait for room with "when_full": "wait".',
        facts=facts,
    )


def _limits(count: int, octets: int) -> str:
    said = [f"{count} messages"] if count >= 0 else []
    if octets >= 0:
        said.append(f"{octets} bytes")
    return " and ".join(said)
