"""`penstock cluster up`: several servers on this machine, in the foreground."""

from __future__ import annotations

import math
import random
import shlex
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.cli.local_servers import LocalServer, LocalServers, ServersFailed
from penstock.server.data_directory import DataDirectoryError

if TYPE_CHECKING:
    from collections.abc import Callable

# How often it is checked whether all of them run.
LOOK_SECONDS: Final = 0.2
FAILED: Final = 1


@dataclass(frozen=True, slots=True)
class Chaos:
    """How often a server is killed, at random between the two numbers. Given to `ClusterUp`."""

    # Between two kills: a cluster recovers within five seconds.
    between_seconds: tuple[float, float] = (8.0, 15.0)
    # How long a killed server stays away.
    away_seconds: tuple[float, float] = (1.0, 6.0)


class ClusterUp:
    """Held by the command while the cluster runs."""

    def __init__(
        self,
        count: int,
        data: Path | None,
        chaos: Chaos | None,
        say: Callable[[str], None],
        ledger: bool = False,
    ) -> None:
        self._is_temporary = data is None
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-cluster-")) if data is None else data
        self._chaos = chaos
        self._say = say
        self._ledger = ledger
        self._cluster = LocalServers(self._folder, count, ledger)

    def run(self) -> int:
        """Returns the exit code when all have stopped."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        cluster = self._cluster
        try:
            cluster.format()
            cluster.start_all()
            self._tell()
            return self._watch()
        except (DataDirectoryError, ServersFailed) as error:
            self._say(f"penstock: {error}")
            return FAILED
        finally:
            cluster.end()
            if self._is_temporary and cluster.is_stopping:
                shutil.rmtree(self._folder, ignore_errors=True)

    def _stop(self, number: int, frame: object) -> None:
        del number, frame
        self._cluster.is_stopping = True

    def _tell(self) -> None:
        servers = self._cluster.servers
        for server in servers:
            self._say(f"{server.name}  {server.ready}  log {server.log}")
        self._say(f"clients: {self._cluster.uri()}")
        http = servers[0].fact("http")
        self._say(f"look: penstock cluster status --server http://{http} --watch")
        if self._ledger:
            self._say(f"audit: {self._audit_command()}")
        removes = f", and removes {self._folder} (keep it: --data DIR)"
        self._say(f"Ctrl-C stops all of them{removes if self._is_temporary else ''}")

    def _audit_command(self) -> str:
        folders = [shlex.quote(str(server.data)) for server in self._cluster.servers]
        return f"penstock pipeline audit {' '.join(folders)}"

    def _watch(self) -> int:
        cluster = self._cluster
        chaos = self._chaos
        chaos_at = math.inf if chaos is None else _after(chaos.between_seconds)
        while not cluster.is_stopping:
            time.sleep(LOOK_SECONDS)
            for server in cluster.servers:
                if server.process is not None and server.process.poll() is not None:
                    code = server.process.returncode
                    raise ServersFailed(
                        f"server {server.name!r} ended with {code}; see {server.log}"
                    )
            if chaos is not None and time.monotonic() >= chaos_at:
                self._make_chaos(random.choice(cluster.servers), chaos)
                chaos_at = _after(chaos.between_seconds)
        return 0

    def _make_chaos(self, server: LocalServer, chaos: Chaos) -> None:
        cluster = self._cluster
        self._say(f"{time.strftime('%H:%M:%S')} killing {server.name} ({server.role()})")
        server.kill()
        until = _after(chaos.away_seconds)
        while time.monotonic() < until and not cluster.is_stopping:
            time.sleep(LOOK_SECONDS)
        if cluster.is_stopping:
            return
        cluster.start(server)
        self._say(f"{time.strftime('%H:%M:%S')} restarted {server.name}  {server.ready}")


def _after(seconds: tuple[float, float]) -> float:
    """A moment between these from now, at random."""
    return time.monotonic() + random.uniform(*seconds)
