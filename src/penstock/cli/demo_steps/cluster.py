"""The three servers of the demo, which are a cluster on this machine."""

import time
from pathlib import Path
from typing import Final, Self

from penstock.cli.demo_steps.broker import DemoBroker
from penstock.cli.local_servers import format_here

NAMES: Final = ("a", "b", "c")

# A cluster elects its root within seconds, on a busy machine too.
ROOT_SECONDS_MAX: Final = 60.0
LOOK_SECONDS: Final = 0.02


class NoRoot(Exception):
    """The cluster has elected no root in time."""


class DemoCluster:
    """Held by the demo."""

    def __init__(self, folder: Path) -> None:
        ports = format_here({name: folder / name for name in NAMES})
        self.servers: dict[str, DemoBroker] = {
            name: DemoBroker(folder / name, port) for name, port in ports.items()
        }

    def start(self) -> str:
        """Start all of them; returns the name of the root."""
        for server in self.servers.values():
            server.start()
        return self.await_root()

    def await_root(self) -> str:
        """The name of the active root. Raises `NoRoot`."""
        until = time.monotonic() + ROOT_SECONDS_MAX
        while time.monotonic() < until:
            for name, server in self.servers.items():
                if server.is_running() and server.is_at("/health/root"):
                    return name
            time.sleep(LOOK_SECONDS)
        raise NoRoot(f"the cluster has elected no root within {ROOT_SECONDS_MAX:.0f} s")

    def kill_root(self) -> str:
        """Kill it with SIGKILL; returns its name."""
        root = self.await_root()
        self.servers[root].kill()
        return root

    @property
    def amqp_uri(self) -> str:
        """All addresses in one: a client finds the root by itself."""
        addresses = ",".join(server.address for server in self.servers.values())
        return f"amqp://guest:guest@{addresses}"

    @property
    def http_uris(self) -> str:
        """All servers, for the Spark source."""
        return ",".join(server.http_uri for server in self.servers.values())

    @property
    def data(self) -> list[Path]:
        return [server.data for server in self.servers.values()]

    def cpu_seconds(self) -> float | None:
        """Of all servers so far; None where it is not available."""
        spent = [server.cpu_seconds() for server in self.servers.values()]
        known = [one for one in spent if one is not None]
        return sum(known) if len(known) == len(spent) else None

    def stop(self) -> None:
        for server in self.servers.values():
            server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
