"""The root is killed again and again, while pairs of clients send and receive.

    python -m tests.interop.failover.kills --kills 10

Exit code 1 if a confirmed message was not received, or one was received twice without a flag.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.interop.failover.pair import CLIENTS, Pair
from tests.support.cluster_processes import ClusterProcesses, cluster_processes, eventually


@contextmanager
def pairs_of(cluster: ClusterProcesses, clients: tuple[str, ...]) -> Iterator[list[Pair]]:
    """Their queues are declared, and all of them are at work."""
    with cluster.root_connection() as connection:
        channel = connection.channel()
        for client in clients:
            channel.queue_declare(f"failover.{client}", durable=True)
    servers = ",".join(f"127.0.0.1:{member.port}" for member in cluster.members.values())
    pairs: list[Pair] = []
    try:
        pairs.extend(Pair(client, servers, cluster.folder) for client in clients)
        yield pairs
    finally:
        for pair in pairs:
            pair.end()


def await_progress(pairs: list[Pair]) -> None:
    """Each of them has confirmed and received something more."""
    for pair, before in [(pair, pair.progress()) for pair in pairs]:
        eventually(f"{pair.client} continues", partial(pair.has_more_than, before))


def kill_root(cluster: ClusterProcesses, pairs: list[Pair]) -> float:
    """Returns after how many seconds all clients have worked again. All servers run in the end."""
    cluster.await_in_sync("".join(cluster.members))
    victim = cluster.root()
    victim.kill()
    killed = time.monotonic()
    await_progress(pairs)
    seconds = time.monotonic() - killed
    victim.start()
    return seconds


def finish(pairs: list[Pair]) -> None:
    """Everything that was sent is confirmed and received."""
    for pair in pairs:
        pair.finish_sending()
    for pair in pairs:
        eventually(f"everything that {pair.client} sent is received", pair.is_complete)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--clients", default=",".join(CLIENTS), help="separated by commas")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="penstock-failover-") as folder,
        cluster_processes(Path(folder)) as cluster,
        pairs_of(cluster, tuple(options.clients.split(","))) as pairs,
    ):
        await_progress(pairs)
        for number in range(1, options.kills + 1):
            print(
                f"kill {number}: all work again after {kill_root(cluster, pairs):.1f} s", flush=True
            )
        try:
            finish(pairs)
        except AssertionError as error:
            print(error)
        return tell(pairs)


def tell(pairs: list[Pair]) -> int:
    is_kept = True
    for pair in pairs:
        lost, unflagged = pair.missing(), pair.repeated_unflagged()
        is_kept = is_kept and not lost and not unflagged
        print(
            f"{pair.client}: {len(pair.confirmed()):,} confirmed, {len(lost)} lost, {pair.repeated()} "
            f"repeated with a flag, {len(unflagged)} repeated without"
        )
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
