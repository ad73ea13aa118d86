"""Rows of queues, under RabbitMQ's names. Read on the broker's loop, made elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.arguments import QUORUM, STREAM
from penstock.broker.definitions.exporting import exported_table
from penstock.broker.effective_policy import merged
from penstock.broker.policy import definition_of
from penstock.broker.queues.message_queue import NO_AGE
from penstock.broker.topology import NO_CONNECTION
from penstock.node.held import MESSAGE_BYTES
from penstock.server.http.api.connection_rows import CONSUMER_SCHEMA, connection_name
from penstock.server.http.api.sampler import LENGTH_COUNT, QUEUE, queue_numbers
from penstock.server.http.api.schema import BOOLEAN, COUNT, TABLE, TEXT, list_of, object_of
from penstock.server.http.api.stats import (
    NULLABLE_TEXT,
    nullable,
    put_queue_numbers,
    row_schema,
    with_details,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.broker.policy import Policy
    from penstock.broker.queues.message_queue import MessageQueue
    from penstock.broker.vhost import VirtualHost
    from penstock.dialects.peer import Peer
    from penstock.node.node import Node
    from penstock.server.http.api.listing import Row
    from penstock.server.http.api.sampler import Sampler
    from penstock.server.http.api.samples import Spans

_PROPERTIES = {
    "arguments": TABLE,
    "oldest_message_age_ms": {"type": ["integer", "null"], "minimum": 0},
    "auto_delete": BOOLEAN,
    "consumers": COUNT,
    "durable": BOOLEAN,
    "effective_policy_definition": TABLE,
    "exclusive": BOOLEAN,
    "exclusive_consumer_tag": NULLABLE_TEXT,
    "head_message_timestamp": nullable(COUNT),
    "leader": TEXT,
    "members": list_of(TEXT),
    "memory": COUNT,
    "message_bytes": COUNT,
    "message_bytes_paged_out": COUNT,
    "message_bytes_ram": COUNT,
    "message_bytes_ready": COUNT,
    "message_stats": object_of({}, with_details(QUEUE[LENGTH_COUNT:])),
    **with_details(QUEUE[:LENGTH_COUNT]),
    "messages_paged_out": COUNT,
    "messages_ram": COUNT,
    "messages_ready_ram": COUNT,
    "messages_unacknowledged_ram": COUNT,
    "name": TEXT,
    "node": TEXT,
    "online": list_of(TEXT),
    "operator_policy": NULLABLE_TEXT,
    "owner_pid_details": object_of({}, {"name": TEXT, "peer_host": TEXT, "peer_port": COUNT}),
    "policy": NULLABLE_TEXT,
    "readers": TABLE,
    "replicate": TEXT,
    "single_active_consumer_ctag": NULLABLE_TEXT,
    "single_active_consumer_tag": NULLABLE_TEXT,
    "state": TEXT,
    "type": TEXT,
    "vhost": TEXT,
}
QUEUE_SCHEMA = row_schema(_PROPERTIES)
QUEUE_WITH_CONSUMERS = row_schema(
    {
        **_PROPERTIES,
        "consumer_details": list_of(CONSUMER_SCHEMA),
        "deliveries": list_of(TABLE),
        "incoming": list_of(TABLE),
    }
)


class PolicyChoice:
    """The policies of one virtual host as they were. Held by the records of one request: which of
    them applies is found when a row is made, because it takes a search per policy.
    """

    __slots__ = ("_operator", "_user")

    def __init__(self, vhost: VirtualHost) -> None:
        self._user = vhost.policies.listed()
        self._operator = vhost.operator_policies.listed()

    def of_queue(self, name: str, queue_type: str) -> tuple[Policy | None, Policy | None]:
        """The user's and the operator's."""
        return _first(self._user, name, queue_type), _first(self._operator, name, queue_type)

    def of_exchange(self, name: str) -> Policy | None:
        for policy in self._user:
            if policy.matches_exchange(name):
                return policy
        return None


def _first(policies: Sequence[Policy], name: str, queue_type: str) -> Policy | None:
    for policy in policies:
        if policy.matches_queue(name, queue_type):
            return policy
    return None


class QueueRecord:
    """One queue, read on the broker's loop."""

    __slots__ = (
        "_active_tag",
        "_age",
        "_choice",
        "_consumers",
        "_exclusive_tag",
        "_history",
        "_memory",
        "_node",
        "_numbers",
        "_owner",
        "_paged_out",
        "_queue",
        "_ready_bytes",
        "_spans",
        "_vhost",
        "name",
    )

    def __init__(
        self,
        node: Node,
        vhost: VirtualHost,
        queue: MessageQueue,
        choice: PolicyChoice,
        sampler: Sampler,
        spans: Spans,
        now: int,
    ) -> None:
        self.name = queue.name
        self._age = queue.oldest_age_ms(now)
        self._vhost = vhost.name
        self._node = node.configuration.cluster_name
        # Of it only what never changes is read later.
        self._queue = queue
        self._choice = choice
        self._numbers = queue_numbers(queue)
        self._ready_bytes = queue.ready_bytes
        self._memory = queue.held_bytes(MESSAGE_BYTES)
        self._paged_out = 0
        if not queue.keeps_messages:
            self._paged_out = queue.message_count - queue.journal_list().in_memory_count()
        consumers = queue.consumers
        self._consumers = consumers.count
        self._exclusive_tag = consumers.registered[0].tag if consumers.exclusive else None
        active = consumers.active
        self._active_tag = None if active is None else active.tag
        self._owner: Peer | None = None
        if queue.exclusive_owner != NO_CONNECTION:
            owner = node.connections.get(queue.exclusive_owner)
            self._owner = None if owner is None else owner.peer
        self._history = sampler.of_queue(queue, not spans.is_empty)
        self._spans = spans

    def row(self) -> Row:
        row = self.short_row()
        row["state"] = "running"
        row["consumers"] = self._consumers
        row["exclusive_consumer_tag"] = self._exclusive_tag
        row["single_active_consumer_tag"] = self._active_tag
        self._put_policies(row)
        if self._owner is not None:
            row["owner_pid_details"] = {
                "name": connection_name(self._owner),
                "peer_host": self._owner.host,
                "peer_port": self._owner.port,
            }
        put_queue_numbers(row, QUEUE, self._numbers, self._history, self._spans)
        row["memory"] = self._memory
        queue_type = self._queue.queue_type
        if queue_type is not STREAM:
            row["head_message_timestamp"] = None
            row["oldest_message_age_ms"] = None if self._age == NO_AGE else self._age
            row["message_bytes"] = self._ready_bytes
            row["message_bytes_ready"] = self._ready_bytes
            ready, unacknowledged = self._numbers[1], self._numbers[2]
            in_memory = ready - self._paged_out
            bytes_in_memory = self._ready_bytes * in_memory // ready if ready else 0
            row["message_bytes_ram"] = bytes_in_memory
            row["message_bytes_paged_out"] = self._ready_bytes - bytes_in_memory
            row["messages_ram"] = in_memory + unacknowledged
            row["messages_ready_ram"] = in_memory
            row["messages_unacknowledged_ram"] = unacknowledged
            row["messages_paged_out"] = self._paged_out
        if queue_type is QUORUM:
            row["single_active_consumer_ctag"] = self._active_tag
        if queue_type is STREAM:
            row["readers"] = {self._node: self._consumers}
        return row

    def short_row(self) -> Row:
        """Without figures."""
        queue = self._queue
        row: Row = {
            "arguments": exported_table(queue.arguments),
            "auto_delete": queue.auto_delete,
            "durable": queue.durable,
            "exclusive": queue.exclusive_owner != NO_CONNECTION,
            "name": self.name,
            "node": self._node,
            "replicate": queue.level.value,
            "state": "live",
            "type": queue.queue_type.value,
            "vhost": self._vhost,
        }
        if queue.queue_type is QUORUM or queue.queue_type is STREAM:
            row.update(leader=self._node, members=[self._node], online=[self._node])
        return row

    def _put_policies(self, row: Row) -> None:
        user, operator = self._choice.of_queue(self.name, self._queue.queue_type.value)
        row["policy"] = None if user is None else user.name
        row["operator_policy"] = None if operator is None else operator.name
        effective = merged(definition_of(user), definition_of(operator))
        row["effective_policy_definition"] = exported_table(effective)


class ShortQueueRecord:
    """A queue without its figures, for `disable_stats`."""

    __slots__ = ("_record", "name")

    def __init__(self, record: QueueRecord) -> None:
        self.name = record.name
        self._record = record

    def row(self) -> Row:
        return self._record.short_row()
