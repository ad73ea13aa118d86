"""Rows of connections, channels and consumers, under RabbitMQ's names.

What is on the broker's loop is read there (`ConnectionRecord`, ...); rows are made elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.definitions.exporting import exported_table
from penstock.server.http.api.sampler import (
    CHANNEL,
    CONNECTION,
    channel_numbers,
    connection_numbers,
)
from penstock.server.http.api.samples import DATA_RATES, MESSAGE_RATES
from penstock.server.http.api.schema import BOOLEAN, COUNT, INTEGER, TABLE, TEXT, Schema, object_of
from penstock.server.http.api.stats import (
    NULLABLE_TEXT,
    message_stats,
    put_details,
    row_schema,
    with_details,
)

if TYPE_CHECKING:
    from penstock.dialects.connection import Connection
    from penstock.dialects.facts import ChannelFacts, ConnectionFacts, ConsumerFacts
    from penstock.dialects.peer import Peer
    from penstock.node.node import Node
    from penstock.server.http.api.listing import Row
    from penstock.server.http.api.sampler import Sampler
    from penstock.server.http.api.samples import Spans

CONNECTION_SCHEMA = row_schema(
    {
        "auth_mechanism": TEXT,
        "channel_max": COUNT,
        "channels": COUNT,
        "client_properties": TABLE,
        "connected_at": COUNT,
        "frame_max": COUNT,
        "host": TEXT,
        "name": TEXT,
        "node": TEXT,
        "peer_cert_issuer": NULLABLE_TEXT,
        "peer_cert_subject": NULLABLE_TEXT,
        "peer_cert_validity": NULLABLE_TEXT,
        "peer_host": TEXT,
        "peer_port": COUNT,
        "port": COUNT,
        "protocol": TEXT,
        "recv_cnt": COUNT,
        **with_details(CONNECTION),
        "send_cnt": COUNT,
        "send_pend": COUNT,
        "ssl": BOOLEAN,
        "ssl_cipher": NULLABLE_TEXT,
        "ssl_hash": NULLABLE_TEXT,
        "ssl_key_exchange": NULLABLE_TEXT,
        "ssl_protocol": NULLABLE_TEXT,
        "state": TEXT,
        "timeout": COUNT,
        "type": TEXT,
        "user": TEXT,
        "user_provided_name": TEXT,
        "user_who_performed_action": TEXT,
        "vhost": TEXT,
    }
)
_CONNECTION_DETAILS = object_of({}, {"name": TEXT, "peer_host": TEXT, "peer_port": COUNT})
CONSUMER_SCHEMA = row_schema(
    {
        "ack_required": BOOLEAN,
        "active": BOOLEAN,
        "activity_status": TEXT,
        "arguments": TABLE,
        "channel_details": TABLE,
        "consumer_tag": TEXT,
        "exclusive": BOOLEAN,
        "prefetch_count": COUNT,
        "queue": object_of({}, {"name": TEXT, "vhost": TEXT}),
    }
)
CHANNEL_PROPERTIES: dict[str, Schema] = {
    "acks_uncommitted": COUNT,
    "confirm": BOOLEAN,
    "connection_details": _CONNECTION_DETAILS,
    "consumer_count": COUNT,
    "global_prefetch_count": COUNT,
    "message_stats": object_of({}, with_details(CHANNEL, INTEGER)),
    "messages_unacknowledged": COUNT,
    "messages_uncommitted": COUNT,
    "messages_unconfirmed": COUNT,
    "name": TEXT,
    "node": TEXT,
    "number": COUNT,
    "prefetch_count": COUNT,
    "state": TEXT,
    "transactional": BOOLEAN,
    "user": TEXT,
    "user_who_performed_action": TEXT,
    "vhost": TEXT,
}
CHANNEL_SCHEMA = row_schema(CHANNEL_PROPERTIES)


def connection_name(peer: Peer) -> str:
    """RabbitMQ's: both ends. A peer without an address has the number of its connection."""
    if not peer.host:
        return f"connection {peer.number}"
    return f"{_end(peer.host, peer.port)} -> {_end(peer.local_host, peer.local_port)}"


def _end(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class ConnectionRecord:
    """One connection, read on the broker's loop."""

    __slots__ = (
        "_began",
        "_counts",
        "_facts",
        "_history",
        "_node",
        "_numbers",
        "_peer",
        "_spans",
        "name",
    )

    def __init__(
        self,
        node: Node,
        connection: Connection,
        facts: ConnectionFacts,
        sampler: Sampler,
        spans: Spans,
    ) -> None:
        self.name = connection_name(connection.peer)
        self._node = node.configuration.cluster_name
        self._peer = connection.peer
        self._facts = facts
        self._began = connection.began + node.state.wall.offset_ms
        outgoing = connection.outgoing
        self._counts = (
            connection.received_count,
            outgoing.sent_count,
            outgoing.transport.unsent_bytes(),
        )
        self._numbers = connection_numbers(connection)
        self._history = sampler.of_connection(connection.number, not spans.is_empty)
        self._spans = spans

    def row(self) -> Row:
        facts, peer = self._facts, self._peer
        row: Row = {
            "auth_mechanism": facts.mechanism,
            "channel_max": facts.channel_max,
            "channels": facts.channel_count,
            "client_properties": exported_table(facts.client_properties),
            "connected_at": self._began,
            "frame_max": facts.frame_max,
            "host": peer.local_host,
            "name": self.name,
            "node": self._node,
            "peer_host": peer.host,
            "peer_port": peer.port,
            "port": peer.local_port,
            "protocol": facts.protocol,
            "recv_cnt": self._counts[0],
            "send_cnt": self._counts[1],
            "send_pend": self._counts[2],
            "state": facts.state,
            "timeout": facts.heartbeat_seconds,
            "type": "network",
            "user": facts.user,
            "user_provided_name": facts.client_name,
            "user_who_performed_action": facts.user,
            "vhost": facts.vhost,
        }
        row.update(_encryption(peer))
        span = self._spans.of(DATA_RATES)
        put_details(row, CONNECTION, self._numbers, self._history, span, 0, len(CONNECTION))
        return row

    def short_row(self) -> Row:
        """For the list of one user's."""
        facts = self._facts
        return {
            "name": self.name,
            "node": self._node,
            "user": facts.user,
            "vhost": facts.vhost,
        }


def _encryption(peer: Peer) -> Row:
    encryption = peer.encryption
    if encryption is None:
        names = ("cipher", "hash", "key_exchange", "protocol")
        row: Row = {"ssl": False, **{f"ssl_{name}": None for name in names}}
        return {**row, **{f"peer_cert_{name}": None for name in ("issuer", "subject", "validity")}}
    return {
        "ssl": True,
        "ssl_cipher": encryption.cipher,
        # Both are part of the name of a cipher suite.
        "ssl_hash": None,
        "ssl_key_exchange": None,
        "ssl_protocol": encryption.version,
        "peer_cert_issuer": encryption.issuer or None,
        "peer_cert_subject": encryption.subject or None,
        "peer_cert_validity": encryption.validity or None,
    }


class ChannelRecord:
    """One channel or session, read on the broker's loop."""

    __slots__ = (
        "_connection",
        "_facts",
        "_history",
        "_node",
        "_numbers",
        "_owner",
        "_peer",
        "_spans",
        "name",
    )

    def __init__(
        self,
        node: Node,
        connection: Connection,
        owner: ConnectionFacts,
        facts: ChannelFacts,
        sampler: Sampler,
        spans: Spans,
    ) -> None:
        self._connection = connection_name(connection.peer)
        self.name = f"{self._connection} ({facts.number})"
        self._node = node.configuration.cluster_name
        self._peer = connection.peer
        self._owner = owner
        self._facts = facts
        self._numbers = channel_numbers(facts)
        self._history = sampler.of_channel(connection.number, facts.number, not spans.is_empty)
        self._spans = spans

    def row(self) -> Row:
        facts, owner = self._facts, self._owner
        row: Row = {
            "acks_uncommitted": facts.acks_uncommitted,
            "confirm": facts.is_confirming,
            "connection_details": {
                "name": self._connection,
                "peer_host": self._peer.host,
                "peer_port": self._peer.port,
            },
            "consumer_count": facts.consumer_count,
            "global_prefetch_count": facts.global_prefetch_count,
            "messages_unacknowledged": facts.unacknowledged,
            "messages_uncommitted": facts.uncommitted,
            "messages_unconfirmed": facts.unconfirmed,
            "name": self.name,
            "node": self._node,
            "number": facts.number,
            "prefetch_count": facts.prefetch_count,
            "state": owner.state if owner.state == "blocked" else "running",
            "transactional": facts.is_transactional,
            "user": owner.user,
            "user_who_performed_action": owner.user,
            "vhost": owner.vhost,
        }
        span = self._spans.of(MESSAGE_RATES)
        stats = message_stats(CHANNEL, self._numbers, self._history, span)
        if stats:
            row["message_stats"] = stats
        return row


class ConsumerRecord:
    """One consumer, read on the broker's loop."""

    __slots__ = ("_facts", "_node", "_peer", "_user", "_vhost", "name")

    def __init__(
        self, node: Node, connection: Connection, owner: ConnectionFacts, facts: ConsumerFacts
    ) -> None:
        # A list of consumers is filtered by it.
        self.name = facts.tag
        self._node = node.configuration.cluster_name
        self._peer = connection.peer
        self._user = owner.user
        self._vhost = owner.vhost
        self._facts = facts

    def is_of_queue(self, name: str) -> bool:
        return self._facts.queue == name

    def row(self) -> Row:
        facts, peer = self._facts, self._peer
        connection = connection_name(peer)
        return {
            "ack_required": facts.acknowledges,
            "active": facts.is_active,
            "activity_status": "up" if facts.is_active else "waiting",
            "arguments": exported_table(facts.arguments),
            "channel_details": {
                "connection_name": connection,
                "name": f"{connection} ({facts.channel})",
                "node": self._node,
                "number": facts.channel,
                "peer_host": peer.host,
                "peer_port": peer.port,
                "user": self._user,
            },
            "consumer_tag": facts.tag,
            "exclusive": facts.is_exclusive,
            "prefetch_count": facts.prefetch_count,
            "queue": {"name": facts.queue, "vhost": self._vhost},
        }
