"""The scenarios: which queues and bindings, how many clients, which faults."""

from dataclasses import replace
from typing import Final

from penstock.broker.exchanges.delayed import KIND as DELAYED_KIND
from penstock.broker.exchanges.delayed import TYPE_ARGUMENT as DELAYED_TYPE
from penstock.broker.exchanges.partitioned import COUNT_ARGUMENT
from penstock.broker.exchanges.partitioned import KIND as PARTITIONED
from penstock.broker.queues.paged_list import PagingLimits
from penstock.broker.store.limits import StoreLimits
from penstock.broker.topology import BindQueue, DeclareExchange, DeclareQueue, VhostCommand
from penstock.simulation.plans import (
    BindingPlan,
    QueuePlan,
    Scenario,
    StoragePlan,
    Topology,
    dead_lettering,
)

EXCHANGES: Final = {"orders": "direct", "news": "fanout", "metrics": "topic"}
BINDINGS: Final = (
    BindingPlan("orders", "new", "alpha"),
    BindingPlan("orders", "old", "beta"),
    BindingPlan("orders", "both", "alpha"),
    BindingPlan("orders", "both", "beta"),
    BindingPlan("news", "", "beta"),
    BindingPlan("news", "", "gamma"),
    BindingPlan("metrics", "cpu.#", "gamma"),
    BindingPlan("metrics", "*.load", "alpha"),
)
ROUTES: Final = (
    ("", "alpha"),
    ("", "gamma"),
    ("orders", "new"),
    ("orders", "old"),
    ("orders", "both"),
    ("orders", "nobody"),
    ("news", ""),
    ("metrics", "cpu"),
    ("metrics", "cpu.load"),
    ("metrics", "disk.load"),
    ("metrics", "disk.free"),
)

PLAIN: Final = Topology(
    EXCHANGES,
    (
        QueuePlan("alpha"),
        QueuePlan("beta", {"x-single-active-consumer": True}),
        QueuePlan("gamma", {"x-queue-type": "quorum"}),
        QueuePlan("attic", is_unread=True),
    ),
    (*BINDINGS, BindingPlan("orders", "old", "attic")),
    ROUTES,
)

LIMITED: Final = Topology(
    EXCHANGES,
    (
        dead_lettering("alpha", x_message_ttl=400),
        dead_lettering("beta", x_max_length=8),
        QueuePlan("gamma", {"x-max-length": 5, "x-overflow": "reject-publish"}, may_refuse=True),
        QueuePlan("delta", {"x-max-length": 6, "x-overflow": "reject-publish"}, may_refuse=True),
        QueuePlan("epsilon", {"x-max-length-bytes": 2_000}, may_drop=True),
        QueuePlan("dead.alpha"),
        QueuePlan("dead.beta"),
    ),
    (
        *BINDINGS,
        BindingPlan("news", "", "delta"),
        BindingPlan("metrics", "disk.*", "epsilon"),
        BindingPlan("orders", "new", "epsilon"),
    ),
    ROUTES,
)

# A few messages of everything, so that a short run rolls, reclaims, copies and pages.
LITTLE: Final = StoreLimits(
    segment_bytes_max=8_000,
    spool_bytes_max=4_000,
    reclaim_step_bytes=300,
    reclaim_patience_ms=2,
    paging=PagingLimits(head_count_max=8, head_count_kept=3, head_bytes_max=4_000, page_count=4),
)

# For many definitions, which are written again as segments are reclaimed.
MODEST: Final = replace(LITTLE, segment_bytes_max=24_000)

DURABLE: Final = Topology(
    EXCHANGES,
    (
        QueuePlan("alpha"),
        QueuePlan("beta", {"x-single-active-consumer": True}),
        QueuePlan("gamma", {"x-queue-type": "quorum"}),
        QueuePlan("delta", {"x-max-priority": 3}),
        QueuePlan("attic", is_unread=True),
    ),
    (*BINDINGS, BindingPlan("orders", "old", "attic"), BindingPlan("orders", "new", "delta")),
    ROUTES,
)

# Like LIMITED, with a queue that shares messages with one that has a time to live.
DURABLE_LIMITED: Final = Topology(
    EXCHANGES,
    (*LIMITED.queues, QueuePlan("zeta")),
    (
        *LIMITED.bindings,
        BindingPlan("orders", "both", "zeta"),
        BindingPlan("orders", "new", "zeta"),
    ),
    ROUTES,
)

# With an exchange that holds messages back.
DELAYED: Final = Topology(
    {**EXCHANGES, "later": "direct"},
    DURABLE.queues,
    (
        *DURABLE.bindings,
        BindingPlan("later", "one", "alpha"),
        BindingPlan("later", "two", "beta"),
        BindingPlan("later", "two", "gamma"),
        BindingPlan("later", "kept", "attic"),
    ),
    (*ROUTES, *[("later", key) for key in ("one", "one", "two", "two", "kept", "nobody")]),
    delayed=frozenset({"later"}),
)

# A single stream, and one of several partitions; few messages fill a segment.
STREAM: Final = "flow"
PARTITIONED_STREAM: Final = "wide"
PARTITION_COUNT: Final = 2
STREAM_NAMES: Final = (STREAM, *[f"{PARTITIONED_STREAM}-{n}" for n in range(PARTITION_COUNT)])
_STREAM_ARGUMENTS: Final[dict[str, object]] = {"x-stream-max-segment-size-bytes": 3_000}
_DECLARED_STREAMS: Final[tuple[VhostCommand, ...]] = (
    DeclareQueue(STREAM, durable=True, arguments={"x-queue-type": "stream", **_STREAM_ARGUMENTS}),
    DeclareExchange(
        PARTITIONED_STREAM,
        PARTITIONED,
        durable=True,
        arguments={COUNT_ARGUMENT: PARTITION_COUNT, **_STREAM_ARGUMENTS},
    ),
)
STREAMS: Final = Topology(
    EXCHANGES, DURABLE.queues, DURABLE.bindings, ROUTES, more=_DECLARED_STREAMS
)

# Messages are moved between them; the last one refuses what it has no room for.
QUAY: Final = "quay"
BARGE: Final = "barge"
SILO: Final = "silo"
HARBOUR: Final = Topology(
    EXCHANGES,
    DURABLE.queues,
    DURABLE.bindings,
    ROUTES,
    more=(
        DeclareQueue(QUAY, durable=True),
        DeclareQueue(BARGE, durable=True, arguments={"x-max-priority": 2}),
        DeclareQueue(
            SILO, durable=True, arguments={"x-max-length": 9, "x-overflow": "reject-publish"}
        ),
    ),
)

# Where leases are taken of, and where sinks publish: a queue, a stream, and both with another.
LEASED: Final = "work"
LANDED: Final = "landed"
ALSO_LANDED: Final = "also.landed"
SPREAD: Final = "spread"
# A queue that refuses what it has no room for, alone and with a queue and a stream.
NARROW: Final = "narrow"
SQUEEZED: Final = "squeezed"
APART: Final = Topology(
    EXCHANGES,
    DURABLE.queues,
    DURABLE.bindings,
    ROUTES,
    more=(
        *_DECLARED_STREAMS,
        DeclareQueue(LEASED, durable=True),
        DeclareQueue(LANDED, durable=True),
        DeclareQueue(ALSO_LANDED, durable=True),
        DeclareExchange(SPREAD, "fanout", durable=True),
        BindQueue(LANDED, SPREAD, ""),
        BindQueue(ALSO_LANDED, SPREAD, ""),
        BindQueue(STREAM, SPREAD, ""),
        DeclareQueue(
            NARROW, durable=True, arguments={"x-max-length": 2, "x-overflow": "reject-publish"}
        ),
        DeclareExchange(SQUEEZED, "fanout", durable=True),
        BindQueue(NARROW, SQUEEZED, ""),
        BindQueue(LANDED, SQUEEZED, ""),
        BindQueue(STREAM, SQUEEZED, ""),
    ),
)

# Where messages leave for the stream: by age, by number, by a client's transaction, after a delay.
# A transaction leaves a receipt in a queue too.
PERISHING: Final = "perishing"
CROWDED: Final = "crowded"
CARRIED: Final = "carried"
RECEIPTS: Final = "receipts"
POSTPONED: Final = "postponed"
_TO_THE_STREAM: Final[dict[str, object]] = {
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": STREAM,
}
MOVING: Final = Topology(
    EXCHANGES,
    DURABLE.queues,
    DURABLE.bindings,
    ROUTES,
    delayed=frozenset({POSTPONED}),
    more=(
        *_DECLARED_STREAMS,
        DeclareQueue(PERISHING, durable=True, arguments={"x-message-ttl": 300, **_TO_THE_STREAM}),
        DeclareQueue(CROWDED, durable=True, arguments={"x-max-length": 3, **_TO_THE_STREAM}),
        DeclareQueue(CARRIED, durable=True, arguments=_TO_THE_STREAM),
        DeclareQueue(RECEIPTS, durable=True),
        DeclareExchange(POSTPONED, DELAYED_KIND, durable=True, arguments={DELAYED_TYPE: "direct"}),
        BindQueue(STREAM, POSTPONED, STREAM),
    ),
)

# With a queue that is deleted now and then; in the second with a dead-lettering queue and limits.
VANISHING: Final = Topology(
    EXCHANGES,
    (*PLAIN.queues, QueuePlan("omega", may_vanish=True)),
    (
        *PLAIN.bindings,
        BindingPlan("orders", "new", "omega"),
        BindingPlan("news", "", "omega"),
    ),
    (*ROUTES, ("", "omega"), ("", "omega")),
)
DURABLE_VANISHING: Final = Topology(
    EXCHANGES,
    (*DURABLE.queues, QueuePlan("omega", may_vanish=True)),
    (*DURABLE.bindings, *VANISHING.bindings[-2:]),
    VANISHING.routes,
)

SCENARIOS: Final[dict[str, Scenario]] = {
    "plain": Scenario(PLAIN),
    "stormy": Scenario(PLAIN, fault_interval_ms=400, messages_per_publisher=40),
    "alarms": Scenario(PLAIN, alarm_weight=12, fault_interval_ms=700),
    "limited": Scenario(LIMITED, prefetch_max=4, consumers_per_queue=1, publisher_count=4),
    "heavy": Scenario(
        PLAIN,
        publisher_count=2,
        messages_per_publisher=30,
        body_bytes_max=20_000,
        frame_max=4096,
        prefetch_max=60,
        consumers_pause=True,
    ),
    "transactions": Scenario(
        PLAIN, publisher_count=1, transactional_count=2, fault_interval_ms=700
    ),
    "two-nodes": Scenario(PLAIN, host_count=2, publisher_count=2, consumers_per_queue=1),
    "durable": Scenario(
        DURABLE,
        storage=StoragePlan(),
        persistent_share=0.8,
        fault_interval_ms=600,
        consumers_per_queue=1,
    ),
    "durable-heavy": Scenario(
        DURABLE,
        storage=StoragePlan(LITTLE),
        persistent_share=0.8,
        fault_interval_ms=600,
        consumers_per_queue=1,
        publisher_count=4,
        messages_per_publisher=80,
        prefetch_max=6,
        consumers_pause=True,
    ),
    "durable-transactions": Scenario(
        DURABLE,
        storage=StoragePlan(LITTLE),
        persistent_share=0.9,
        fault_interval_ms=600,
        consumers_per_queue=1,
        publisher_count=1,
        transactional_count=2,
    ),
    "durable-limits": Scenario(
        DURABLE_LIMITED,
        storage=StoragePlan(LITTLE),
        persistent_share=0.9,
        fault_interval_ms=600,
        consumers_per_queue=1,
        publisher_count=4,
        prefetch_max=4,
    ),
    "definitions": Scenario(
        DURABLE,
        storage=StoragePlan(LITTLE),
        persistent_share=0.8,
        fault_interval_ms=600,
        consumers_per_queue=1,
        publisher_count=1,
        messages_per_publisher=30,
        operator_count=2,
    ),
    "administration": Scenario(
        DURABLE,
        storage=StoragePlan(MODEST),
        persistent_share=0.8,
        fault_interval_ms=500,
        consumers_per_queue=1,
        publisher_count=1,
        messages_per_publisher=30,
        operator_count=1,
        administrator_count=2,
    ),
    "delayed": Scenario(
        DELAYED,
        storage=StoragePlan(LITTLE),
        persistent_share=0.8,
        fault_interval_ms=600,
        consumers_per_queue=1,
    ),
    "durable-acknowledgements": Scenario(
        DURABLE,
        storage=StoragePlan(LITTLE),
        persistent_share=0.9,
        fault_interval_ms=600,
        consumers_per_queue=0,
        transactional_consumers_per_queue=1,
    ),
    "careless": Scenario(
        DURABLE,
        storage=StoragePlan(LITTLE),
        persistent_share=0.9,
        fault_interval_ms=600,
        consumers_per_queue=1,
        careless_consumers_per_queue=1,
    ),
    "streams": Scenario(
        STREAMS,
        storage=StoragePlan(LITTLE),
        persistent_share=0.8,
        fault_interval_ms=600,
        publisher_count=1,
        consumers_per_queue=1,
        messages_per_publisher=40,
        stream_publisher_count=4,
        readers_per_stream=2,
    ),
    "leases": Scenario(
        APART,
        storage=StoragePlan(MODEST),
        persistent_share=0.8,
        fault_interval_ms=600,
        publisher_count=1,
        consumers_per_queue=1,
        messages_per_publisher=40,
        lease_job_count=2,
    ),
    "sinks": Scenario(
        APART,
        storage=StoragePlan(MODEST, full_disk_weight=4),
        persistent_share=0.8,
        fault_interval_ms=600,
        publisher_count=1,
        consumers_per_queue=1,
        messages_per_publisher=20,
        sink_job_count=2,
    ),
    "queue-moves": Scenario(
        HARBOUR,
        storage=StoragePlan(MODEST, power_weight=16, full_disk_weight=4),
        persistent_share=0.8,
        fault_interval_ms=400,
        publisher_count=1,
        consumers_per_queue=1,
        messages_per_publisher=40,
        move_job_count=2,
    ),
    "moving": Scenario(
        MOVING,
        storage=StoragePlan(LITTLE, power_weight=16, full_disk_weight=4),
        persistent_share=0.8,
        fault_interval_ms=500,
        publisher_count=1,
        consumers_per_queue=1,
        messages_per_publisher=40,
        readers_per_stream=2,
        mover_count=3,
    ),
    "amqp10": Scenario(
        VANISHING,
        publisher_count=1,
        consumers_per_queue=1,
        messages_per_publisher=40,
        body_bytes_max=900,
        fault_interval_ms=800,
        sender_count=3,
        receivers_per_queue=1,
    ),
    "amqp10-limits": Scenario(
        LIMITED,
        publisher_count=1,
        consumers_per_queue=0,
        messages_per_publisher=50,
        prefetch_max=4,
        sender_count=3,
        receivers_per_queue=1,
    ),
    "amqp10-resuming": Scenario(
        VANISHING,
        publisher_count=1,
        consumers_per_queue=1,
        messages_per_publisher=40,
        fault_interval_ms=400,
        sender_count=3,
        receivers_per_queue=1,
        lasting_share=0.9,
    ),
    "amqp10-durable": Scenario(
        DURABLE_VANISHING,
        storage=StoragePlan(LITTLE),
        persistent_share=0.9,
        publisher_count=1,
        consumers_per_queue=1,
        messages_per_publisher=50,
        fault_interval_ms=600,
        prefetch_max=8,
        sender_count=2,
        receivers_per_queue=1,
        lasting_share=0.3,
    ),
    "amqp10-transactions": Scenario(
        DURABLE_VANISHING,
        storage=StoragePlan(LITTLE),
        persistent_share=0.9,
        publisher_count=2,
        consumers_per_queue=1,
        messages_per_publisher=40,
        fault_interval_ms=700,
        prefetch_max=8,
        transactor_count=6,
    ),
}
