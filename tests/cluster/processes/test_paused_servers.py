"""SIGSTOP of a server, and SIGCONT: it does not know that it was away."""

import threading
import time
from collections.abc import Callable

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.cluster.processes.servers import (
    PATIENCE_SECONDS,
    ClusterServer,
    RunningCluster,
)
from tests.cluster.processes.traffic import (
    PERSISTENT,
    QUEUE,
    TROUBLES,
    Ledger,
    PikaPublisher,
    await_confirms,
    declare,
    drain,
    publish,
    root_channel,
    settle,
)

pytestmark = pytest.mark.timeout(900)

PAUSE_SECONDS = 10.0


class Asked:
    """A call to a server that sleeps; it must end with the loss of the connection."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self.answer: object = None
        self.is_lost = False
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        try:
            self.answer = self._call()
        except TROUBLES:
            self.is_lost = True

    def check_lost(self) -> None:
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "the old root has left its client alone"
        assert self.is_lost, f"the old root answered {self.answer!r} after it woke"


def test_a_root_that_slept_ten_seconds_confirms_and_delivers_nothing_when_it_wakes(
    three: RunningCluster,
) -> None:
    publish(three.start(), b"before")
    old, publishing, getting = three.until("one root has both", lambda: two_channels(three))
    publishing.confirm_delivery()
    old.pause()
    slept = time.monotonic()
    # The kernel takes both; the server reads them when it wakes.
    asked = [
        Asked(lambda: publishing.basic_publish("", QUEUE, b"to the old root", PERSISTENT)),
        Asked(lambda: getting.basic_get(QUEUE)),
    ]
    new = three.root()
    assert new is not old
    count = 0
    while time.monotonic() < slept + PAUSE_SECONDS:
        count += 1
        publish(three, b"%d" % count)
    old.resume()
    for one in asked:
        one.check_lost()
    assert three.whole_root() is not old or new.has_stayed()
    three.make_root(old)
    expected = [b"before", *(b"%d" % number for number in range(1, count + 1))]
    drained = drain(three)
    assert list(dict.fromkeys(body for body, _ in drained)) == expected
    assert all(is_redelivered for _, is_redelivered in drained)


def two_channels(
    cluster: RunningCluster,
) -> tuple[ClusterServer, BlockingChannel, BlockingChannel] | None:
    """Each with a connection of its own to one root; None if the root has changed between them."""
    (first, publishing), (second, getting) = root_channel(cluster), root_channel(cluster)
    return (first, publishing, getting) if first is second else None


def test_qpid_a40_a42_a_stalled_backup_leaves_the_in_sync_set_and_comes_back(
    three: RunningCluster,
) -> None:
    """A42: test_stalled_backup; A40: test_expected_backup_timeout."""
    declare(three.start())
    ledger = Ledger()
    publisher = PikaPublisher(three, ledger)
    root = three.whole_root()
    backup = next(server for server in three.servers if server is not root)
    backup.pause()
    three.await_dropped(backup)
    assert root.has_stayed()
    await_confirms(three, ledger, 20)
    backup.resume()
    three.whole_root()
    publisher.end()
    three.make_root(backup)
    settle(three, ledger)
