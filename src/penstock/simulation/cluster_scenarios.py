"""The scenarios in which several servers are one cluster."""

from dataclasses import replace
from typing import Final

from penstock.broker.exchanges.partitioned import COUNT_ARGUMENT
from penstock.broker.exchanges.partitioned import KIND as PARTITIONED
from penstock.broker.topology import DeclareExchange, DeclareQueue
from penstock.simulation.plans import RetentionPlan, Scenario, StoragePlan, Topology
from penstock.simulation.scenarios import (
    APART,
    DELAYED,
    DURABLE,
    DURABLE_LIMITED,
    HARBOUR,
    MODEST,
    MOVING,
    PARTITION_COUNT,
    PARTITIONED_STREAM,
    STREAM,
    STREAM_NAMES,
    STREAMS,
)

# For jobs of all kinds.
WORKSHOP: Final = Topology(
    APART.exchanges,
    APART.queues,
    APART.bindings,
    APART.routes,
    more=(*APART.more, *HARBOUR.more),
)

# Streams that give up segments, of a few messages each: one by its size, the partitions by age. The age
# is more than clocks of servers may differ.
_SMALL_SEGMENTS: Final[dict[str, object]] = {"x-stream-max-segment-size-bytes": 700}
_BY_SIZE: Final = RetentionPlan(bytes_max=2_500)
_BY_AGE: Final = RetentionPlan(age_ms_max=3_000)
RETENTION: Final = {name: _BY_SIZE if name == STREAM else _BY_AGE for name in STREAM_NAMES}
RETAINED: Final = Topology(
    STREAMS.exchanges,
    STREAMS.queues,
    STREAMS.bindings,
    STREAMS.routes,
    more=(
        DeclareQueue(
            STREAM,
            durable=True,
            arguments={
                "x-queue-type": "stream",
                "x-max-length-bytes": _BY_SIZE.bytes_max,
                **_SMALL_SEGMENTS,
            },
        ),
        DeclareExchange(
            PARTITIONED_STREAM,
            PARTITIONED,
            durable=True,
            arguments={
                COUNT_ARGUMENT: PARTITION_COUNT,
                "x-max-age": f"{_BY_AGE.age_ms_max // 1000}s",
                **_SMALL_SEGMENTS,
            },
        ),
    ),
)

# Servers that are one cluster; `host_count` is how many.
_CLUSTER: Final = Scenario(
    DURABLE,
    host_count=3,
    storage=StoragePlan(MODEST, full_disk_weight=0),
    persistent_share=0.5,
    alarm_weight=0,
    fault_interval_ms=700,
    publisher_count=2,
    transactional_count=1,
    consumers_per_queue=1,
    transactional_consumers_per_queue=0,
    messages_per_publisher=40,
    operator_count=1,
)
CLUSTER_SCENARIOS: Final[dict[str, Scenario]] = {
    "cluster": _CLUSTER,
    "cluster5": replace(_CLUSTER, host_count=5, transactional_consumers_per_queue=1),
    "cluster7": replace(_CLUSTER, host_count=7, messages_per_publisher=30),
    "cluster-members": replace(_CLUSTER, spare_count=2, fault_interval_ms=500),
    "cluster-amqp10": replace(
        _CLUSTER,
        publisher_count=1,
        transactional_count=0,
        operator_count=0,
        messages_per_publisher=25,
        prefetch_max=8,
        sender_count=2,
        receivers_per_queue=1,
        transactor_count=2,
        lasting_share=0.3,
    ),
    "cluster-amqp10-limits": replace(
        _CLUSTER,
        topology=DURABLE_LIMITED,
        publisher_count=1,
        transactional_count=0,
        consumers_per_queue=0,
        operator_count=0,
        messages_per_publisher=30,
        prefetch_max=4,
        sender_count=2,
        receivers_per_queue=1,
    ),
    # Messages of many frames, more of them than consumers read at once.
    "cluster-heavy": replace(
        _CLUSTER,
        messages_per_publisher=20,
        body_bytes_max=20_000,
        frame_max=4096,
        prefetch_max=60,
        consumers_pause=True,
    ),
    "cluster-alarms": replace(_CLUSTER, alarm_weight=30),
    "cluster-limits": replace(
        _CLUSTER, topology=DURABLE_LIMITED, prefetch_max=4, transactional_count=0
    ),
    "cluster-delayed": replace(_CLUSTER, topology=DELAYED, careless_consumers_per_queue=1),
    # Jobs beside the clients: leases, sinks, and operators who move messages.
    "cluster-jobs": replace(
        _CLUSTER,
        topology=WORKSHOP,
        publisher_count=1,
        transactional_count=0,
        operator_count=0,
        messages_per_publisher=20,
        lease_job_count=1,
        sink_job_count=1,
        move_job_count=1,
        administrator_count=1,
    ),
    # Messages that leave queues and delayed exchanges for a stream; and disks that have no room.
    "cluster-moving": replace(
        _CLUSTER,
        topology=MOVING,
        storage=StoragePlan(MODEST, full_disk_weight=6),
        publisher_count=1,
        transactional_count=0,
        operator_count=0,
        messages_per_publisher=30,
        readers_per_stream=1,
        mover_count=2,
    ),
    "cluster-streams": replace(
        _CLUSTER,
        topology=STREAMS,
        publisher_count=1,
        transactional_count=0,
        messages_per_publisher=30,
        stream_publisher_count=4,
        readers_per_stream=1,
    ),
    "cluster-retention": replace(
        _CLUSTER,
        topology=RETAINED,
        publisher_count=1,
        transactional_count=0,
        messages_per_publisher=60,
        stream_publisher_count=4,
        readers_per_stream=2,
        retention=RETENTION,
    ),
}
