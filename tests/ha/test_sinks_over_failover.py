"""Batches of a sink that are written to replicated streams while roots are killed: no record is lost,
and none is there twice.

The job does what Spark does: it stages partitions, commits the batch, and begins the batch again, as
another attempt, when its root is gone before the answer.
"""

from __future__ import annotations

import pytest

from penstock.broker.sinks.message_rows import rows_of
from penstock.broker.sinks.sinks import commit, is_committed, stage
from penstock.broker.sinks.stages import StageKey
from penstock.broker.streams.opening import find_stream, streams_of
from penstock.broker.topology import BindQueue, DeclareExchange, DeclareQueue, VhostCommand
from penstock.broker.vhost import VirtualHost
from tests.broker.store.doubles import message
from tests.seeds.cluster_doubles import Cluster
from tests.seeds.watched_host import WatchedHost

SINK = "job"
PARTITIONS = 2
# Of a partition. Each is staged and published on its own, so that a kill can come in between.
BLOCKS = 12
ROWS = 3
BATCHES = 2
LOOK_US = 200
# When a root is killed: in what phase of a batch, and how many microseconds after its beginning.
MOMENTS = [
    *[("staging", delay) for delay in (1500, 9000)],
    *[("committing", delay) for delay in range(0, 4000, 1000)],
    *[("publishing", delay) for delay in range(0, 9000, 1500)],
]

STREAM: dict[str, object] = {"x-queue-type": "stream"}
SHAPES: dict[str, list[VhostCommand]] = {
    "a stream": [
        DeclareExchange("to", "fanout", durable=True),
        DeclareQueue("log", durable=True, arguments=STREAM),
        BindQueue("log", "to"),
    ],
    "a stream and a queue": [
        DeclareExchange("to", "fanout", durable=True),
        DeclareQueue("log", durable=True, arguments=STREAM),
        DeclareQueue("work", durable=True),
        BindQueue("log", "to"),
        BindQueue("work", "to"),
    ],
    "a partitioned stream": [
        DeclareExchange("to", "x-partitioned-stream", durable=True, arguments={"x-partitions": 3}),
    ],
}


class SinkJob:
    """Writes batches at whoever is the root; may hear no answer."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._attempt = 0
        self._killed_in = ""
        self._delay = 0
        # Whether a root was killed that had published a part of a batch.
        self.was_in_between = False

    def kill_root(self, phase: str, delay: int) -> None:
        """In that phase of the batch that is written next."""
        self._killed_in = phase
        self._delay = delay

    def _enters(self, phase: str) -> None:
        if phase == self._killed_in:
            self._killed_in = ""
            self._cluster.clock.after(self._delay, self._kill)

    def _kill(self) -> None:
        for name in self._cluster.roots():
            root = self._cluster.hosts[name]
            published = written(root)
            self.was_in_between |= published % len(everything(1)) > 0 and has_pending(root)
            root.die()

    def write(self, batch: int) -> None:
        """Until the batch is published and committed by the cluster."""
        while True:
            root = self._cluster.elected()
            if self._is_published(root, batch) and self._is_answered(root):
                return
            if is_committed(vhost_of(root), SINK, batch):
                self._cluster.clock.run(LOOK_US)
                continue
            self._attempt += 1
            if self._is_staged(root, batch):
                self._enters("committing")
                total = BLOCKS * ROWS
                attempts = [(part, self._attempt, total) for part in range(PARTITIONS)]
                commit(vhost_of(root), SINK, batch, attempts, root.now())
                root.schedule_flush()
                if self._is_answered(root):
                    self._enters("publishing")

    def _is_staged(self, root: WatchedHost, batch: int) -> bool:
        self._enters("staging")
        for part in range(PARTITIONS):
            for block in range(BLOCKS):
                rows = rows_of(
                    [message(body, exchange="to") for body in bodies(batch, part, block)]
                )
                key = StageKey(SINK, batch, part, self._attempt)
                stage(vhost_of(root), key, rows, root.now())
                root.schedule_flush()
                # The answers of several blocks are awaited together.
                if block % 4 == 0 and not self._is_answered(root):
                    return False
        return self._is_answered(root)

    def _is_published(self, root: WatchedHost, batch: int) -> bool:
        return is_committed(vhost_of(root), SINK, batch) and not has_pending(root)

    def _is_answered(self, root: WatchedHost) -> bool:
        """Whether everything so far was committed before this root was gone."""
        while root.is_up:
            if root.may_serve() and root.node.is_all_durable() and not root.node.has_work():
                return True
            self._cluster.clock.run(LOOK_US)
        return False


def vhost_of(host: WatchedHost) -> VirtualHost:
    return host.node.state.vhost("/")


def bodies(batch: int, part: int, block: int) -> list[bytes]:
    return [b"%d.%d.%d.%d" % (batch, part, block, row) for row in range(ROWS)]


def everything(batches: int) -> list[bytes]:
    return [
        body
        for batch in range(batches)
        for part in range(PARTITIONS)
        for block in range(BLOCKS)
        for body in bodies(batch, part, block)
    ]


def records(host: WatchedHost, name: str) -> list[bytes]:
    """What readers of a stream get."""
    stream = find_stream(vhost_of(host).queues, name)
    assert stream is not None
    found: list[bytes] = []
    offset = stream.files.log.first_offset
    while offset < stream.files.readable_offset():
        read = stream.files.read(offset)
        found.extend([one.body for one in read])
        offset += len(read)
    return found


def has_pending(host: WatchedHost) -> bool:
    sink = vhost_of(host).sinks.get(SINK)
    return sink is not None and len(sink.pending) > 0


def written(host: WatchedHost) -> int:
    """Records in all streams."""
    return sum(stream.message_count for stream in streams_of(vhost_of(host).queues.values()))


def ran(shape: str, phase: str, delay: int) -> tuple[Cluster, bool]:
    """A root dies in every batch, and comes back before the next one. Also returns whether one had
    published a part of a batch then.
    """
    cluster = Cluster()
    root = cluster.elected()
    for command in SHAPES[shape]:
        root.node.apply_to_vhost("/", command, root.now())
    root.schedule_flush()
    cluster.settle()
    job = SinkJob(cluster)
    for batch in range(BATCHES):
        job.kill_root(phase, delay)
        job.write(batch)
        cluster.clock.run(delay)
        for host in cluster.hosts.values():
            if host.is_dead:
                host.revive()
        cluster.elected()
    cluster.settle()
    cluster.run(1)
    return cluster, job.was_in_between


@pytest.mark.parametrize("shape", SHAPES)
def test_every_record_is_there_once_when_roots_are_killed_at_any_moment(shape: str) -> None:
    in_between = 0
    for phase, delay in MOMENTS:
        cluster, was_in_between = ran(shape, phase, delay)
        in_between += was_in_between
        for host in cluster.hosts.values():
            where = (phase, delay, host.name)
            if shape == "a partitioned stream":
                found = [body for number in range(3) for body in records(host, f"to-{number}")]
                assert sorted(found) == sorted(everything(BATCHES)), where
            else:
                assert records(host, "log") == everything(BATCHES), where
            if shape == "a stream and a queue":
                assert host.bodies("work") == everything(BATCHES), where
        assert cluster.are_equal()
    assert in_between > 2, "the moments have missed what they are about"
