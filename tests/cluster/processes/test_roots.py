"""Who is the root, and what the others say meanwhile: OpenAMQ's tutorials and Qpid's tests of
failovers. The labels are those of docs/design/cluster.md.
"""

import threading
from functools import partial
from pathlib import Path

import pika
import pytest

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
    connected,
    drain,
    is_lost,
    parameters,
    publish,
)

pytestmark = pytest.mark.timeout(900)


def test_openamq_c26_c27_c28_and_qpid_a8_the_next_most_senior_server_follows_a_stopped_root(
    three: RunningCluster,
) -> None:
    """A8: test_empty_backup_failover, for no client has declared anything."""
    three.start()
    old = three.whole_root()
    others = [server for server in three.servers if server is not old]
    has_votes(three, old, [3, 3, 3])
    assert {server.status()["expected_root"] for server in three.servers} == {old.name}
    health = {server.name: server.page("/health/root")[0] for server in three.servers}
    assert health.pop(old.name) == 200
    assert set(health.values()) == {503}
    assert old.stop() == 0
    new = three.root()
    # Not given on is what takes longer than a second: then each of the others may be the first.
    assert new is others[0] or "handed over to" not in old.log()
    # The old root may have voted for its heir before it was gone.
    has_votes(three, new, [2, 2, 3], [3, 2, 3])
    others.remove(new)
    three.until("the other one is ready", lambda: others[0].page("/health/ready")[0] == 200)
    publish(three, b"after")
    old.start()
    assert three.whole_root() is new, "there is no automatic fail-back"
    three.until("it is a backup", lambda: old.role() == "ready")
    assert drain(three) == [(b"after", False)]


def has_votes(cluster: RunningCluster, server: ClusterServer, *votes: list[int]) -> None:
    """Granted, active, known; the last vote may come after the election was won."""
    cluster.until(f"{server.name} has votes {votes}", lambda: server.status()["votes"] in votes)


def test_openamq_c29_a_cluster_of_two_that_lost_its_root_stays_not_ready(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 2) as two:
        publish(two.start(), b"kept")
        two.whole_root()
        first = two.root()
        [second] = two.backups()
        first.kill()
        two.until("it is not ready", lambda: second.page("/health/ready")[0] == 503)
        # It hears nobody, and one vote of two is not more than half.
        two.until("it sees itself alone", lambda: is_alone(second))
        assert second.page("/health/root")[0] == 503
        first.start()
        two.whole_root()
        assert [body for body, _ in drain(two)] == [b"kept"]


def is_alone(server: ClusterServer) -> bool:
    """One active server of two."""
    votes = server.status()["votes"]
    assert isinstance(votes, list)
    return votes[1:] == [1, 2]


def test_openamq_c30_and_qpid_a39_a_root_without_a_majority_confirms_nothing_and_resigns(
    three: RunningCluster,
) -> None:
    """A39: test_queue_hold. Consuming does not go on, because nobody could know of it."""
    publish(three.start(), b"first")
    root = three.whole_root()
    channel = pika.BlockingConnection(parameters(root)).channel()
    channel.confirm_delivery()
    backups = three.backups()
    for backup in backups:
        backup.kill()
    assert is_lost(lambda: channel.basic_publish("", QUEUE, b"in doubt", PERSISTENT))
    three.until("it has resigned", lambda: root.role() not in ("active", None))
    assert root.page("/health/root")[0] == 503
    backups[0].start()
    publish(three, b"second")
    bodies = [body for body, _ in drain(three)]
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
            assert server.page("/health/ready")[0] == 503
    told = {client.server.name: client.wait() for client in clients}
    root = three.root()
    assert told.pop(root.name) == "open-ok"
    for text in told.values():
        assert "320" in text
        assert f"127.0.0.1:{root.port}" in text


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
    assert [body for body, _ in drain(three)] == [b"first", b"without it"]


def test_qpid_a7_the_second_backup_follows_the_new_root(three: RunningCluster) -> None:
    """A7: test_backup_failover."""
    publish(three.start(), b"1", b"2", b"3")
    three.whole_root().kill()
    with connected(three) as connection:
        channel = connection.channel()
        channel.tx_select()
        method, _, body = channel.basic_get(QUEUE)
        assert (body, method.redelivered) == (b"1", True)
        channel.basic_ack(method.delivery_tag)
        channel.basic_publish("", QUEUE, b"4", PERSISTENT)
        channel.tx_commit()
    [second] = three.backups()
    three.succeed("hand-over", second.name)
    three.until("the second backup is the root", second.is_root)
    assert [body for body, _ in drain(three)] == [b"2", b"3", b"4"]
