"""What a chaos run does to its servers: one trouble after the other, each to a random victim."""

import random
import time
from collections.abc import Callable
from enum import Enum
from typing import Final

from penstock.cli.local_servers import LocalServer, LocalServers

# Longer than an election takes, and longer than a member stays in the in-sync set.
TROUBLE_SECONDS: Final = (0.5, 8.0)
# Between two, so that most of them find a whole cluster.
REST_SECONDS: Final = (1.0, 3.0)
# The root is the victim this often; else anybody.
ROOT_CHANCE: Final = 0.5
LOOK_SECONDS: Final = 0.05


class TroubleKind(Enum):
    """The value is what people read."""

    KILL = "kill"
    PAUSE = "pause"
    STOP = "stop"
    KILL_ALL = "kill all"


# How often each, relative to the others.
WEIGHTS: Final = {
    TroubleKind.KILL: 5,
    TroubleKind.PAUSE: 3,
    TroubleKind.STOP: 3,
    TroubleKind.KILL_ALL: 1,
}


class Trouble:
    """Makes it. Held by the run."""

    def __init__(
        self, cluster: LocalServers, dice: random.Random, while_waiting: Callable[[], None]
    ) -> None:
        self._cluster = cluster
        self._dice = dice
        self._while_waiting = while_waiting
        self.counts: dict[TroubleKind, int] = dict.fromkeys(TroubleKind, 0)
        # Of these, how many hit the root.
        self.root_count = 0

    def make(self) -> None:
        """One trouble from its beginning to its end: all servers run again afterwards."""
        dice = self._dice
        kind = dice.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        victims = self._victims(kind)
        self.counts[kind] += 1
        if any(server.role() == "active" for server in victims):
            self.root_count += 1
        for server in victims:
            if kind is TroubleKind.PAUSE:
                server.pause()
            elif kind is TroubleKind.STOP:
                server.stop()
            else:
                server.kill()
        self._wait(dice.uniform(*TROUBLE_SECONDS))
        for server in victims:
            if kind is TroubleKind.PAUSE:
                server.resume()
            else:
                self._cluster.launch(server)
        for server in victims:
            if kind is not TroubleKind.PAUSE:
                self._cluster.await_ready(server)
        self._wait(dice.uniform(*REST_SECONDS))

    def _victims(self, kind: TroubleKind) -> list[LocalServer]:
        servers = self._cluster.servers
        if kind is TroubleKind.KILL_ALL:
            return list(servers)
        if self._dice.random() < ROOT_CHANCE:
            roots = [server for server in servers if server.role() == "active"]
            if roots:
                return roots[:1]
        return [self._dice.choice(servers)]

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._cluster.is_stopping:
            time.sleep(LOOK_SECONDS)
            self._while_waiting()
