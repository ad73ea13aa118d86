"""Trouble at random for a cluster of real processes, for as long as it is told to.

    python -m tests.cluster.processes.long_trouble --servers 5 --rounds 30 --seed 7

Each round does one thing to a minority of the servers: kills, pauses, or cuts off, one way or both. It
ends with all of them back and in sync. At the end everything is delivered and the ledger is checked.
Prints how long each round was without a confirm.
"""

import argparse
import random
import tempfile
import time
from pathlib import Path

from tests.cluster.processes.cut_proxy import CutNetwork, cut_network
from tests.cluster.processes.servers import ClusterServer, RunningCluster
from tests.cluster.processes.traffic import (
    Ledger,
    PikaPublisher,
    TransactedConsumer,
    await_confirms,
    declare,
    settle,
)

TROUBLES = ("kill", "pause", "isolate", "deafen", "kill all")
# Longer than an election takes, and longer than a member stays in the in-sync set.
TROUBLE_SECONDS = (0.5, 8.0)


class Trouble:
    """One round."""

    def __init__(
        self, cluster: RunningCluster, network: CutNetwork, ledger: Ledger, dice: random.Random
    ) -> None:
        self._cluster = cluster
        self._network = network
        self._ledger = ledger
        self._dice = dice

    def play(self) -> str:
        """What was done, and how long nobody was told of a confirm."""
        cluster = self._cluster
        cluster.whole_root()
        kind = self._dice.choice(TROUBLES)
        count = self._dice.randint(1, (len(cluster.servers) - 1) // 2)
        victims = self._dice.sample(cluster.servers, count)
        if self._dice.random() < 0.5:
            root = cluster.root()
            victims = [root, *(one for one in victims if one is not root)][:count]
        if kind == "kill all":
            victims = list(cluster.servers)
        began = time.monotonic()
        before = len(self._ledger.confirmed)
        self._begin(kind, victims)
        seconds = self._dice.uniform(*TROUBLE_SECONDS)
        if len(victims) < len(cluster.servers):
            cluster.until("a confirm", lambda: len(self._ledger.confirmed) > before + 1)
        silent = time.monotonic() - began
        while time.monotonic() < began + seconds:
            time.sleep(0.05)
        self._end(kind, victims)
        await_confirms(cluster, self._ledger, 5)
        names = " ".join(server.name for server in victims)
        return f"{kind} {names}: {silent:.1f} s until a confirm, {seconds:.1f} s of trouble"

    def _begin(self, kind: str, victims: list[ClusterServer]) -> None:
        for server in victims:
            if kind.startswith("kill"):
                server.kill()
            elif kind == "pause":
                server.pause()
            elif kind == "isolate":
                self._network.isolate(server)
            else:
                for other in self._cluster.servers:
                    if other is not server:
                        self._network.cut(other, server)

    def _end(self, kind: str, victims: list[ClusterServer]) -> None:
        if kind.startswith("kill"):
            self._cluster.start_again(victims)
        elif kind == "pause":
            for server in victims:
                server.resume()
        else:
            self._network.heal()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 16))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    dice = random.Random(options.seed)
    with (
        tempfile.TemporaryDirectory(prefix="penstock-trouble-") as folder,
        cut_network(Path(folder), options.servers) as (cluster, network),
    ):
        declare(cluster.start())
        ledger = Ledger()
        clients = [PikaPublisher(cluster, ledger), TransactedConsumer(cluster, ledger)]
        await_confirms(cluster, ledger, 5)
        for number in range(options.rounds):
            told = Trouble(cluster, network, ledger, dice).play()
            print(f"round {number + 1}: {told}; {len(ledger.confirmed)} confirmed", flush=True)
            assert ledger.lies == []
        for client in clients:
            client.end()
        settle(cluster, ledger)
        print(f"{len(ledger.confirmed)} confirmed, {len(ledger.completed)} completed: all there")


if __name__ == "__main__":
    main()
