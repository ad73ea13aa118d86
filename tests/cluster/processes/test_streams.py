"""Streams on real servers: nothing confirmed is lost, no offset changes, all logs are the same octets."""

import contextlib
import shutil

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from penstock.spark.batch_reader import BatchReader
from penstock.spark.http_client import client_for
from penstock.spark.options import read_options
from tests.cluster.processes.servers import ClusterServer, RunningCluster
from tests.cluster.processes.stream_traffic import (
    PAGE,
    STREAM,
    NumberedPublisher,
    Reader,
    await_equal_logs,
    declare_stream,
    everything,
    logs,
    page,
)
from tests.cluster.processes.traffic import (
    PERSISTENT,
    TROUBLES,
    Ledger,
    await_confirms,
    root_channel,
    with_channel,
)

UNAVAILABLE = 503

pytestmark = pytest.mark.timeout(900)


def read_by_spark(server: ClusterServer) -> list[bytes]:
    """What Spark's tasks read of the stream from one server."""
    address = f"http://guest:guest@127.0.0.1:{server.http_port}/%2F"
    options = read_options({"uri": address, "stream": STREAM})
    reader = BatchReader(options)
    bodies: list[bytes] = []
    for partition in reader.partitions():
        for batch in reader.read(partition):
            bodies.extend(batch.column("body").to_pylist())
    client_for(options.access).close()
    return bodies


def test_a_stream_survives_its_roots_and_a_server_without_its_disk(three: RunningCluster) -> None:
    three.start()
    declare_stream(three)
    ledger = Ledger()
    publishers = [NumberedPublisher(three, ledger, name) for name in ("one", "two")]
    reader = Reader(three)
    await_confirms(three, ledger, 60)
    killed = three.whole_root()
    killed.kill()
    await_confirms(three, ledger, 60)
    killed.start()
    three.whole_root()
    await_confirms(three, ledger, 20)
    # One comes back without anything, and gets all segments.
    lost = three.backups()[0]
    lost.kill()
    shutil.rmtree(lost.data)
    three.format(lost)
    lost.start()
    three.succeed("replace", lost.name)
    three.whole_root()
    await_confirms(three, ledger, 20)
    three.whole_root().kill()
    await_confirms(three, ledger, 20)
    for server in three.servers:
        if not server.is_running:
            server.start()
    for publisher in publishers:
        publisher.end()
    await_equal_logs(three)
    bodies = everything(three)
    three.until("the reader has read everything", lambda: reader.next >= len(bodies))
    reader.end()
    assert [reader.seen[offset] for offset in range(len(bodies))] == bodies
    assert set(ledger.confirmed) - set(bodies) == set()
    for name in (b"one", b"two"):
        own = [body for body in bodies if body.startswith(name)]
        assert own == [b"%s %d" % (name, number) for number in range(1, len(own) + 1)]
    assert len(logs(three.servers[0])) > 3
    for server in three.servers:
        assert read_by_spark(server) == bodies
        # Another server may show more of it already.
        assert page(server, f"{PAGE}/segments/{len(bodies)}/log")[0] == UNAVAILABLE


def test_what_only_a_dead_root_had_is_gone_when_it_returns(three: RunningCluster) -> None:
    three.start()
    declare_stream(three)
    with_channel(three, lambda channel: publish_confirmed(channel, b"first"))
    bodies = [b"nobody saw it"]

    def die_alone() -> ClusterServer | None:
        """A root that has the last body, which no other server has."""
        root, channel = root_channel(three)
        others = [server for server in three.servers if server is not root]
        try:
            before = channel.queue_declare(STREAM, passive=True).method.message_count
            for server in others:
                server.kill()
            # The root serves until its lease ends.
            channel.basic_publish("", STREAM, bodies[-1], PERSISTENT)
            count = channel.queue_declare(STREAM, passive=True).method.message_count
            assert count == before + 1
        except TROUBLES:
            bodies.append(bodies[-1] + b" again")
            three.start_again(others)
            return None
        root.kill()
        with contextlib.suppress(*TROUBLES):
            channel.connection.close()
        return root

    alone = three.until("a root dies alone", die_alone)
    three.start_again([server for server in three.servers if server is not alone])
    with_channel(three, lambda channel: publish_confirmed(channel, b"last"))
    alone.start()
    await_equal_logs(three)
    found = everything(three)
    assert (found[0], found[-1]) == (b"first", b"last")
    for server in three.servers:
        assert bodies[-1] not in b"".join(logs(server).values())


def publish_confirmed(channel: BlockingChannel, body: bytes) -> None:
    channel.confirm_delivery()
    channel.basic_publish("", STREAM, body, PERSISTENT)
