"""Who is the root, and what the others say meanwhile: OpenAMQ's tutorials and Qpid's tests of
failovers. The labels are those of docs/design/cluster.md.
"""

import threading
from functools import partial
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.cluster.processes.servers import (
    PATIENCE_SECONDS,
    ClusterServer,
    RunningCluster,
    running_cluster,
)
from tests.cluster.processes.traffic import (
    PERSISTENT,
    QUEUE,
    TROUBLES,
    drain_bodies,
    is_lost,
    parameters,
    publish,
    publish_confirmed,
    root_channel,
    with_channel,
)

pytestmark = pytest.mark.timeout(900)


def test_openamq_c26_c27_c28_and_qpid_a8_the_next_most_senior_server_follows_a_stopped_root(
    three: RunningCluster,
) -> None:
    """A8: test_empty_backup_failover, for no client has declared anything."""
    three.start()
    three.until("one is the root, and all expect it", lambda: agree(three))
    has_votes(three, [3, 3, 3])
    old = three.whole_root()
    others = [server for server in three.servers if server is not old]
    assert old.stop() == 0
    # Not given on is what takes longer than a second: then each of the others may be the first.
    if "handed over to" in old.log():
        assert f"handed over to {others[0].name!r}" in old.log()
        three.until("the heir is or was the root", others[0].was_root)
    # The old root may have voted for its heir before it was gone.
    has_votes(three, [2, 2, 3], [3, 2, 3])
    three.until("both are ready", lambda: {page(one, "ready") for one in others} == {200})
    publish(three, b"after")
    new = three.root()
    old.start()
    assert three.whole_root() is new or new.has_stayed(), "there is no automatic fail-back"
    three.until("it is a backup", lambda: old.role() == "ready" or old.is_root())
    assert drain_bodies(three) == [b"after"]


def page(server: ClusterServer, name: str) -> int:
    return server.page(f"/health/{name}")[0]


def agree(cluster: RunningCluster) -> bool:
    """Whether exactly one of them says that it is the root, and all expect this one."""
    root = cluster.whole_root()
    health = {server.name: page(server, "root") for server in cluster.servers}
    expected = {server.status().get("expected_root") for server in cluster.servers}
    return (
        health.pop(root.name) == 200 and set(health.values()) == {503} and (expected == {root.name})
    )


def has_votes(cluster: RunningCluster, *votes: list[int]) -> None:
    """Granted, active, known; the last vote may come after the election was won."""
    cluster.until(
        f"the root has votes {votes}", lambda: cluster.root().status().get("votes") in votes
    )


def test_openamq_c29_a_cluster_of_two_that_lost_its_root_stays_not_ready(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 2) as two:
        publish(two.start(), b"kept")
        first = two.whole_root()
        [second] = [server for server in two.servers if server is not first]
        first.kill()
        two.until("it is not ready", lambda: page(second, "ready") == 503)
        # It hears nobody, and one vote of two is not more than half.
        two.until("it sees itself alone", lambda: is_alone(second))
        two.until("it is not the root", lambda: page(second, "root") == 503)
        first.start()
        two.whole_root()
        assert drain_bodies(two) == [b"kept"]


def is_alone(server: ClusterServer) -> bool:
    """One active server of two."""
    votes = server.status().get("votes")
    return isinstance(votes, list) and votes[1:] == [1, 2]


def test_openamq_c30_and_qpid_a39_a_root_without_a_majority_confirms_nothing_and_resigns(
    three: RunningCluster,
) -> None:
    """A39: test_queue_hold. Consuming does not go on, because nobody could know of it."""
    publish(three.start(), b"first")
    root, channel = root_channel(three)
    backups = [server for server in three.servers if server is not root]
    for backup in backups:
        backup.kill()
    assert is_lost(lambda: publish_confirmed(channel, b"in doubt"))
    three.until("it has resigned", lambda: root.role() not in ("active", None))
    three.until("it is not the root", lambda: page(root, "root") == 503)
    backups[0].start()
    publish(three, b"second")
    bodies = drain_bodies(three)
    assert [body for body in bodies if body != b"in doubt"] == [b"first", b"second"]


class HeldClient:
    """Opens a connection before there is a root, and is told something once there is one."""

    def __init__(self, server: ClusterServer) -> None:
        self.server = server
        self.told = ""
        self._thread = threading.Thread(target=self._open, daemon=True)
        self._thread.start()

    def _open(self) -> None:
        try:
            with pika.BlockingConnection(parameters(self.server)):
                self.told = "open-ok"
        except TROUBLES as error:
            self.told = repr(error)

    def wait(self) -> str:
        self._thread.join(PATIENCE_SECONDS)
        return self.told


def test_openamq_c31_a_client_that_came_before_the_root_is_held_and_then_admitted(
    three: RunningCluster,
) -> None:
    """Or sent on to the root, by a server that is not."""
    for server in three.servers:
        three.format(server)
    clients = []
    for server in three.servers:
        server.start()
        clients.append(HeldClient(server))
        if server.name == "a":
            three.until("the server has it", partial(has_clients, server))
            assert clients[0].told == ""
            three.until("it says so", lambda: page(three.servers[0], "ready") == 503)
    for client in clients:
        if client.wait() == "open-ok":
            assert client.server.was_root()
            continue
        assert "320" in client.told
        roots = [server for server in three.servers if server.was_root()]
        assert any(f"127.0.0.1:{root.port}" in client.told for root in roots), client.told


def has_clients(server: ClusterServer) -> bool:
    """Whether the machine has an established connection to its port."""
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(row[3] == "01" and row[2].endswith(f":{server.port:04X}") for row in rows)


def test_qpid_a41_a_server_that_missed_something_is_not_elected(three: RunningCluster) -> None:
    """A41: test_join_ready_cluster."""
    publish(three.start(), b"first")
    behind = three.whole_root()
    # It was the root, so it is as senior as any in what follows, or nearly.
    behind.kill()
    publish(three, b"without it")
    three.whole_root(behind)
    rest = three.running()
    for server in rest:
        server.kill()
    behind.start()
    rest[1].start()
    assert three.root() is rest[1]
    assert drain_bodies(three) == [b"first", b"without it"]


def test_qpid_a7_the_second_backup_follows_the_new_root(three: RunningCluster) -> None:
    """A7: test_backup_failover."""
    publish(three.start(), b"1", b"2", b"3")
    three.whole_root().kill()
    with_channel(three, exchange_first_for_last)
    [second] = three.backups()
    three.make_root(second)
    assert drain_bodies(three) == [b"2", b"3", b"4"]


def exchange_first_for_last(channel: BlockingChannel) -> None:
    """In one transaction."""
    channel.tx_select()
    method, _, body = channel.basic_get(QUEUE)
    assert method is not None
    assert method.redelivered
    # It was done before, and only the answer lost, if another one comes.
    if body == b"1":
        channel.basic_ack(method.delivery_tag)
        channel.basic_publish("", QUEUE, b"4", PERSISTENT)
        channel.tx_commit()
