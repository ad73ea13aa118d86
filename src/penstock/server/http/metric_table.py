"""The names of all metrics, with what they mean. docs/METRICS.md is checked against this.

RabbitMQ's names stand where they mean the same, so that its dashboards show data; what RabbitMQ does
not have begins with `penstock_`. Names of counters are without the suffix `_total`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

GAUGE: Final = "gauge"
COUNTER: Final = "counter"


@dataclass(frozen=True, slots=True)
class MetricRow:
    """A metric and the attribute of its figures. Held by the tables here."""

    name: str
    kind: Literal["gauge", "counter"]
    text: str
    attribute: str


# Metrics by the name of their family.
Tables = dict[str, tuple[MetricRow, ...]]

TOTALS: Final = (
    MetricRow("rabbitmq_connections", GAUGE, "Connections, including WebSockets", "connections"),
    MetricRow("rabbitmq_channels", GAUGE, "Open channels and AMQP 1.0 sessions", "channels"),
    MetricRow("rabbitmq_queues", GAUGE, "Queues and streams", "queues"),
    MetricRow("rabbitmq_consumers", GAUGE, "Consumers of all queues", "consumers"),
    MetricRow("rabbitmq_global_publishers", GAUGE, "Channels that have published", "publishers"),
    MetricRow("rabbitmq_global_consumers", GAUGE, "Consumers of all queues", "consumers"),
    MetricRow("penstock_vhosts", GAUGE, "Virtual hosts", "vhosts"),
    MetricRow("rabbitmq_queue_messages_ready", GAUGE, "Messages ready, without streams", "ready"),
    MetricRow(
        "rabbitmq_queue_messages_unacked",
        GAUGE,
        "Messages delivered to consumers and not yet acknowledged",
        "unacknowledged",
    ),
    MetricRow(
        "rabbitmq_queue_messages",
        GAUGE,
        "Messages ready and unacknowledged, without streams",
        "messages",
    ),
    MetricRow(
        "rabbitmq_channel_consumers",
        GAUGE,
        "Consumers on channels",
        "channel_consumers",
    ),
    MetricRow(
        "rabbitmq_channel_messages_unacked",
        GAUGE,
        "Messages that channels have delivered and that are not yet acknowledged",
        "channel_unacknowledged",
    ),
    MetricRow(
        "rabbitmq_channel_messages_unconfirmed",
        GAUGE,
        "Messages published and not yet confirmed",
        "unconfirmed",
    ),
    MetricRow(
        "rabbitmq_channel_messages_uncommitted",
        GAUGE,
        "Messages in transactions that are not yet committed",
        "uncommitted",
    ),
    MetricRow(
        "rabbitmq_channel_acks_uncommitted",
        GAUGE,
        "Acknowledgements in transactions that are not yet committed",
        "acks_uncommitted",
    ),
    MetricRow(
        "rabbitmq_alarms_memory_used_watermark",
        GAUGE,
        "1 while the memory alarm is active",
        "is_memory_low",
    ),
    MetricRow(
        "rabbitmq_alarms_free_disk_space_watermark",
        GAUGE,
        "1 while the disk alarm is active",
        "is_disk_low",
    ),
    MetricRow(
        "rabbitmq_alarms_file_descriptor_limit",
        GAUGE,
        "1 while no more connections are accepted, because the limit is reached",
        "is_full",
    ),
    MetricRow(
        "penstock_publishers_blocked", GAUGE, "1 while an alarm blocks publishers", "is_blocked"
    ),
    MetricRow(
        "penstock_memory_held_bytes",
        GAUGE,
        "Bytes of messages and buffers in memory; the memory alarm uses this value",
        "held_bytes",
    ),
    MetricRow(
        "rabbitmq_global_messages_received",
        COUNTER,
        "Messages received from publishers",
        "received",
    ),
    MetricRow(
        "rabbitmq_global_messages_received_confirm",
        COUNTER,
        "Messages received from publishers that expect a confirm",
        "received_confirm",
    ),
    MetricRow(
        "rabbitmq_global_messages_confirmed",
        COUNTER,
        "Messages confirmed to publishers, or rejected",
        "confirmed",
    ),
    MetricRow(
        "rabbitmq_global_messages_routed",
        COUNTER,
        "Messages enqueued, counted once per queue, with dead letters and moved messages",
        "published",
    ),
    MetricRow(
        "rabbitmq_global_messages_unroutable_returned",
        COUNTER,
        "Messages that reached no queue and were returned or released to the publisher",
        "returned",
    ),
    MetricRow(
        "rabbitmq_global_messages_unroutable_dropped",
        COUNTER,
        "Messages that reached no queue and were dropped",
        "dropped",
    ),
    MetricRow(
        "rabbitmq_global_messages_delivered",
        COUNTER,
        "Messages delivered to consumers or fetched",
        "delivered",
    ),
    MetricRow(
        "rabbitmq_global_messages_delivered_consume_manual_ack",
        COUNTER,
        "Messages delivered to consumers that acknowledge, or on a channel that has both kinds",
        "delivered_manual",
    ),
    MetricRow(
        "rabbitmq_global_messages_delivered_consume_auto_ack",
        COUNTER,
        "Messages delivered to consumers with automatic acknowledgement",
        "delivered_automatic",
    ),
    MetricRow(
        "rabbitmq_global_messages_delivered_get_manual_ack",
        COUNTER,
        "Messages fetched with basic.get that are acknowledged later",
        "got_manual",
    ),
    MetricRow(
        "rabbitmq_global_messages_delivered_get_auto_ack",
        COUNTER,
        "Messages fetched with basic.get and automatic acknowledgement",
        "got_automatic",
    ),
    MetricRow(
        "rabbitmq_global_messages_get_empty",
        COUNTER,
        "basic.get that found no message",
        "got_empty",
    ),
    MetricRow(
        "rabbitmq_global_messages_acknowledged",
        COUNTER,
        "Messages acknowledged by consumers",
        "acknowledged",
    ),
    MetricRow(
        "rabbitmq_global_messages_redelivered", COUNTER, "Messages redelivered", "redelivered"
    ),
    MetricRow(
        "rabbitmq_connection_incoming_bytes",
        COUNTER,
        "Bytes received on connections",
        "received_bytes",
    ),
    MetricRow(
        "rabbitmq_connection_outgoing_bytes",
        COUNTER,
        "Bytes sent on connections",
        "sent_bytes",
    ),
    MetricRow("rabbitmq_connections_opened", COUNTER, "Connections opened", "connections_opened"),
    MetricRow("rabbitmq_connections_closed", COUNTER, "Connections closed", "connections_closed"),
    MetricRow("rabbitmq_channels_opened", COUNTER, "Channels opened", "channels_opened"),
    MetricRow("rabbitmq_channels_closed", COUNTER, "Channels closed", "channels_closed"),
    MetricRow(
        "rabbitmq_queues_declared",
        COUNTER,
        "Queues and streams declared that did not exist",
        "queues_declared",
    ),
    MetricRow("rabbitmq_queues_created", COUNTER, "Queues and streams created", "queues_declared"),
    MetricRow("rabbitmq_queues_deleted", COUNTER, "Queues and streams deleted", "queues_deleted"),
)

_QUEUE_LEVELS: Final = (
    MetricRow("rabbitmq_queue_messages_ready", GAUGE, "Messages ready", "ready"),
    MetricRow(
        "rabbitmq_queue_messages_unacked",
        GAUGE,
        "Messages delivered to consumers and not yet acknowledged",
        "unacknowledged",
    ),
    MetricRow("rabbitmq_queue_messages", GAUGE, "Messages ready and unacknowledged", "total"),
)
_QUEUE_CONSUMERS: Final = (
    MetricRow("rabbitmq_queue_consumers", GAUGE, "Consumers of the queue", "consumers"),
)
_QUEUE_COUNTS: Final = (
    MetricRow("penstock_queue_messages_published", COUNTER, "Messages enqueued", "published"),
    MetricRow("penstock_queue_messages_delivered", COUNTER, "Messages delivered", "delivered"),
    MetricRow(
        "penstock_queue_messages_acknowledged", COUNTER, "Messages acknowledged", "acknowledged"
    ),
    MetricRow(
        "penstock_queue_messages_redelivered", COUNTER, "Messages redelivered", "redelivered"
    ),
)
_CONNECTION_BYTES: Final = (
    MetricRow("rabbitmq_connection_incoming_bytes", COUNTER, "Bytes received", "received_bytes"),
    MetricRow("rabbitmq_connection_outgoing_bytes", COUNTER, "Bytes sent", "sent_bytes"),
)
_CONNECTION_CHANNELS: Final = (
    MetricRow("rabbitmq_connection_channels", GAUGE, "Channels of the connection", "channels"),
)
_CHANNEL: Final = (
    MetricRow("rabbitmq_channel_consumers", GAUGE, "Consumers on the channel", "consumers"),
    MetricRow(
        "rabbitmq_channel_messages_unacked",
        GAUGE,
        "Messages delivered and not yet acknowledged",
        "unacknowledged",
    ),
    MetricRow(
        "rabbitmq_channel_messages_unconfirmed",
        GAUGE,
        "Messages published and not yet confirmed",
        "unconfirmed",
    ),
    MetricRow(
        "rabbitmq_channel_messages_uncommitted",
        GAUGE,
        "Messages in a transaction that is not yet committed",
        "uncommitted",
    ),
    MetricRow(
        "rabbitmq_channel_acks_uncommitted",
        GAUGE,
        "Acknowledgements in a transaction that is not yet committed",
        "acks_uncommitted",
    ),
    MetricRow(
        "rabbitmq_consumer_prefetch",
        GAUGE,
        "Prefetch limit of each consumer of the channel",
        "consumer_prefetch",
    ),
    MetricRow(
        "rabbitmq_channel_prefetch",
        GAUGE,
        "Prefetch limit of the channel as a whole",
        "channel_prefetch",
    ),
)

# By the names of `?family=`, which are RabbitMQ's but for the last two.
QUEUE_FAMILIES: Final[Tables] = {
    "queue_coarse_metrics": _QUEUE_LEVELS,
    "queue_consumer_count": _QUEUE_CONSUMERS,
    "queue_metrics": _QUEUE_CONSUMERS,
    "penstock_queue_counts": _QUEUE_COUNTS,
}
CONNECTION_FAMILIES: Final[Tables] = {
    "connection_coarse_metrics": _CONNECTION_BYTES,
    "connection_metrics": _CONNECTION_CHANNELS,
}
CHANNEL_FAMILIES: Final[Tables] = {"channel_metrics": _CHANNEL}
# Names of virtual hosts and exchanges.
NAME_FAMILIES: Final = ("vhost_status", "exchange_names")
# Totals that can be asked for as a family as well: names that begin so.
TOTAL_FAMILIES: Final = {
    "connection_churn_metrics": (
        "rabbitmq_connections_",
        "rabbitmq_channels_",
        "rabbitmq_queues_",
    ),
    "alarm_metrics": ("rabbitmq_alarms_",),
}
TIME_FAMILY: Final = "penstock_queue_times"


def rows_of(tables: Tables, families: frozenset[str]) -> list[MetricRow]:
    """Those of the families that were asked for. Two of them may have a metric in common."""
    rows = (row for family in tables if family in families for row in tables[family])
    return list(dict.fromkeys(rows))
