"""Who is waited for: backups that are slow, stopped, hanging, full or flapping leave the in-sync set by a
committed record and with a reason; idle ones stay. Simulated servers with the shipped node.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.client.events import Blocked, Unblocked
from penstock.node.ha_status import HaStatus, QueueStatus, ha_status, queue_statuses
from penstock.node.in_sync_history import HISTORY_MAX, InSyncHistory
from penstock.wire.amqp091 import methods_generated as m
from tests.seeds.cluster_doubles import TIMING, Cluster, SimulatedClient

LONG_US = 1000 * TIMING.in_sync_ms * 4
NO_ANSWER = "'c' has answered no heartbeat for 1500 ms"
NO_PROGRESS = "'c' has acknowledged nothing for 1500 ms"


def with_queue() -> tuple[Cluster, SimulatedClient]:
    cluster = Cluster()
    client = cluster.client()
    client.call(m.QueueDeclare("q", durable=True))
    cluster.settle()
    return cluster, client


def ha_of(cluster: Cluster, name: str) -> HaStatus:
    host = cluster.hosts[name]
    return ha_status(host.member, host.now())


def queue_rows(cluster: Cluster, name: str) -> dict[str, QueueStatus]:
    """By server."""
    host = cluster.hosts[name]
    queue = host.node.state.vhost("/").queues["q"]
    return {row.server: row for row in queue_statuses(host.member, "/", queue)}


def hang(cluster: Cluster) -> None:
    """Connected, and stuck."""
    cluster.hosts["c"].disk.hang(LONG_US)


def stop(cluster: Cluster) -> None:
    cluster.hosts["c"].pause(LONG_US)


def cut(cluster: Cluster) -> None:
    cluster.isolate("c", LONG_US / 1_000_000)


def fill(cluster: Cluster) -> None:
    """Its process ends, for it must not go on without a disk."""
    cluster.hosts["c"].is_calm = False
    cluster.hosts["c"].disk.fill_up(0)


@pytest.mark.parametrize(
    ("trouble", "reasons"),
    [
        (hang, {NO_PROGRESS}),
        (stop, {NO_ANSWER, NO_PROGRESS}),
        (cut, {NO_ANSWER, NO_PROGRESS}),
        (fill, {NO_ANSWER, NO_PROGRESS}),
    ],
)
def test_a_backup_in_trouble_leaves_by_a_record_with_a_reason_and_confirms_go_on(
    trouble: Callable[[Cluster], None], reasons: set[str]
) -> None:
    cluster, client = with_queue()
    trouble(cluster)
    began = cluster.clock.microseconds
    client.publish("q", b"one")
    cluster.until(lambda: client.confirmed == [b"one"])
    # Not before its time, and not much later.
    waited_ms = (cluster.clock.microseconds - began) // 1000
    assert TIMING.in_sync_ms - 500 <= waited_ms <= TIMING.in_sync_ms + 1000
    assert cluster.hosts["b"].record.in_sync == ("a", "b")
    last = ha_of(cluster, "a").history[-1]
    assert (last.left, last.in_sync) == (("c",), ("a", "b"))
    assert last.reason in reasons
    # The others have the record, and its reason.
    there = ha_of(cluster, "b").history[-1]
    assert (there.left, there.reason) == (("c",), last.reason)


def test_a_backup_that_flaps_is_dropped_and_taken_back_each_time_and_nothing_is_silent() -> None:
    cluster, client = with_queue()
    known = len(ha_of(cluster, "a").history)
    for number in range(3):
        cluster.hosts["c"].disk.hang(1000 * TIMING.in_sync_ms * 2)
        client.publish("q", b"%d" % number)
        cluster.until(lambda: cluster.hosts["a"].record.in_sync == ("a", "b"))
        cluster.elected("a")
    assert len(client.confirmed) == 3
    changes = ha_of(cluster, "a").history[known:]
    assert [(change.left, change.entered) for change in changes] == [(("c",), ()), ((), ("c",))] * 3
    assert changes[1].reason == "'c' has everything that is committed"
    # Every server tells the same, the one that it is about as well.
    told = [(change.left, change.reason) for change in changes]
    for name in "bc":
        there = ha_of(cluster, name).history[-6:]
        assert [(change.left, change.reason) for change in there] == told


def test_a_slow_backup_that_makes_progress_stays() -> None:
    cluster, client = with_queue()
    for number in range(4):
        cluster.hosts["c"].disk.hang(1000 * TIMING.in_sync_ms // 2)
        client.confirmed_publish("q", b"%d" % number)
    assert cluster.hosts["a"].record.in_sync == ("a", "b", "c")


def test_an_idle_backup_is_not_dropped_however_long_nothing_happens() -> None:
    cluster, _ = with_queue()
    known = ha_of(cluster, "a").history
    cluster.run(TIMING.in_sync_ms / 1000 * 10)
    assert cluster.hosts["a"].record.in_sync == ("a", "b", "c")
    assert ha_of(cluster, "a").history == known
    assert queue_rows(cluster, "a")["c"].state == "ready"


def test_below_a_majority_confirms_wait_publishers_are_blocked_and_an_alarm_says_why() -> None:
    cluster, client = with_queue()
    cluster.hosts["c"].die()
    cluster.until(lambda: cluster.hosts["a"].record.in_sync == ("a", "b"))
    # Connected, and stuck: it may not leave, because two of three must have everything.
    cluster.hosts["b"].disk.hang(LONG_US)
    client.publish("q", b"one")
    root = cluster.hosts["a"]
    cluster.until(lambda: "replication" in root.node.alarms)
    why = "too few servers have everything: 'b' has acknowledged nothing for 1500 ms"
    cluster.until(lambda: root.node.alarms["replication"] == why)
    assert ha_of(cluster, "a").waiting == why
    cluster.until(lambda: any(isinstance(event, Blocked) for event in client.events))
    assert client.confirmed == []
    assert root.record.in_sync == ("a", "b")
    # When it goes on, so does everybody.
    cluster.until(lambda: client.confirmed == [b"one"])
    cluster.until(lambda: root.node.alarms["replication"] == "")
    cluster.until(lambda: any(isinstance(event, Unblocked) for event in client.events))
    assert ha_of(cluster, "a").waiting == ""


def test_a_new_root_tells_of_its_own_epoch_and_has_no_alarm() -> None:
    cluster, _ = with_queue()
    cluster.hosts["a"].die()
    root = cluster.elected("b")
    assert root.node.alarms.get("replication", "") == ""
    first = ha_of(cluster, "b").history[-1]
    assert first.reason == f"'b' became the root of epoch {root.election.epoch}"


# What operators see.


def test_states_of_servers_and_queues_with_what_is_missing_while_a_backup_catches_up() -> None:
    cluster, client = with_queue()
    cluster.hosts["c"].die()
    cluster.hand_over("b")
    client = cluster.client("b")
    client.confirmed_publish("q", *[b"%04d" % number * 25_000 for number in range(40)])
    cluster.hosts["c"].revive()
    seen: set[tuple[str, bool]] = set()

    def is_ready() -> bool:
        for backup in ha_of(cluster, "b").backups:
            if backup.name == "c":
                seen.add((backup.state, backup.missing_messages > 0))
                row = queue_rows(cluster, "b")["c"]
                assert (row.state, row.missing > 0) == (backup.state, backup.missing_messages > 0)
        own = ha_of(cluster, "c")
        if own.missing_messages:
            assert own.role == "backup" and own.state == "catchup"
            assert queue_rows(cluster, "c")["c"].missing == own.missing_messages
            seen.add(("its own", True))
        return cluster.hosts["b"].record.in_sync == ("a", "b", "c")

    cluster.until(is_ready)
    assert {("catchup", True), ("its own", True)} <= seen
    cluster.elected("b")
    own = ha_of(cluster, "b")
    assert (own.role, own.state) == ("primary", "active")
    by_name = {backup.name: backup for backup in own.backups}
    assert {name: one.state for name, one in by_name.items()} == {"a": "ready", "c": "ready"}
    assert by_name["c"].missing_messages == 0
    assert 0 <= by_name["a"].first_guarded < by_name["c"].first_guarded <= own.last + 1
    assert queue_rows(cluster, "b")["b"].state == "active"
    assert queue_rows(cluster, "a")["a"].state == "ready"


def test_a_queue_tells_what_is_delayed_for_which_backup_and_from_where_on() -> None:
    cluster, client = with_queue()
    client.confirmed_publish("q", b"before")
    cluster.settle()
    cluster.hosts["c"].disk.hang(1000 * TIMING.in_sync_ms // 2)
    client.publish("q", b"one", b"two")
    cluster.until(lambda: cluster.member_status("a", "b").lag_operations == 0)
    cluster.run(0.2)
    rows = queue_rows(cluster, "a")
    assert (rows["b"].delayed, rows["c"].delayed, rows["c"].delayed_sent) == (0, 2, 2)
    assert rows["c"].first_guarded > 0
    cluster.until(lambda: len(client.confirmed) == 3)
    assert queue_rows(cluster, "a")["c"].delayed == 0


def test_the_history_is_bounded_and_keeps_the_newest() -> None:
    history = InSyncHistory()
    for number in range(HISTORY_MAX + 5):
        names = "abc" if number % 2 else "ab"
        assert history.note(Cluster.bootstrap(names), f"reason {number}", number) is not None
    assert history.note(Cluster.bootstrap("ab"), "no change", 999) is None
    changes = history.changes()
    assert len(changes) == HISTORY_MAX
    assert (changes[0].reason, changes[-1].at) == ("reason 5", HISTORY_MAX + 4)
    assert history.total == HISTORY_MAX + 5
