"""Clusters under test: three servers on loopback, each a process tree of its own.

As with single brokers, every cluster has free ports and a directory of its own.
"""

import abc
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.brokers import (
    FIRST_READY_SECONDS_MAX,
    READY_LINE,
    build_of,
    penstock_command,
    penstock_version,
)
from bench.cpu import process_tree
from bench.running import HOST, BrokerUnavailableError, end_tree, free_port, send_signal
from bench.session import BrokerRefusedError, Session

SERVERS: Final = 3
NAMES: Final = ("a", "b", "c")

# Three servers that start at once on two busy cores, and then elect a root. A million messages may
# have to be transferred to a server that was killed before it counts as in sync.
WHOLE_SECONDS_MAX: Final = 180.0
POLL_SECONDS: Final = 0.05
STATUS_SECONDS_MAX: Final = 2.0
REPLACE_SECONDS_MAX: Final = 30.0
REPLACE_RETRY_SECONDS: Final = 0.2


@dataclasses.dataclass(slots=True)
class ClusterServer:
    """One server. Held by its cluster; processes change with every start."""

    name: str
    folder: Path
    port: int
    http_port: int = 0
    pid: int = 0
    process: subprocess.Popen[str] | None = None

    def output(self) -> str:
        return (self.folder / "output").read_text(errors="replace")

    def launch(self, command: list[str], environment: dict[str, str]) -> None:
        with (self.folder / "output").open("w") as output:
            self.process = subprocess.Popen(
                command,
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self.pid = self.process.pid

    @property
    def has_ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def kill(self) -> None:
        """Kill all its processes at once, without an orderly stop."""
        assert self.process is not None
        for member in process_tree(self.process.pid):
            send_signal(member, signal.SIGKILL)
        self.process.wait()
        self.process = None

    def stop(self) -> None:
        if self.process is not None:
            end_tree(self.process)
            self.process = None


class RunningCluster(abc.ABC):
    """Three servers that replicate one another. The run holds it from start to stop."""

    name: str
    version = "unknown"

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"penstock-bench-{self.name}-"))
        self.servers: list[ClusterServer] = []
        for name in NAMES:
            (self.folder / name).mkdir()
            self.servers.append(ClusterServer(name, self.folder / name, free_port(), free_port()))
        started = time.perf_counter()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        self.startup_seconds = time.perf_counter() - started

    @abc.abstractmethod
    def _start(self) -> None:
        """Returns once all three replicate."""

    @abc.abstractmethod
    def root(self) -> ClusterServer:
        """The server that clients of a replicated queue should use. Raises `BrokerUnavailableError`
        if there is none.
        """

    @abc.abstractmethod
    def epoch(self) -> int:
        """Changes when another server becomes the root; -1 while nobody knows."""

    def stop(self) -> None:
        for server in self.servers:
            server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class PenstockCluster(RunningCluster):
    """Three members, formatted and served by the project's own launcher, with default timers."""

    name = "penstock-cluster"

    def _start(self) -> None:
        self._key.write_text(os.urandom(32).hex() + "\n")
        self._key.chmod(0o600)
        for server in self.servers:
            self.format(server)
        for server in self.servers:
            self._launch(server)
        for server in self.servers:
            self._wait_ready(server)
        self.version = f"{penstock_version()} {build_of(self.servers[0].pid)}"
        self.wait_until_whole()

    @property
    def _key(self) -> Path:
        return self.folder / "key"

    def format(self, server: ClusterServer) -> None:
        """Make its data directory, which is missing."""
        command = [*penstock_command(), "cluster", "format", "--data", str(self.data(server))]
        command += ["--name", server.name, "--key-file", str(self._key)]
        for each in self.servers:
            command += ["--member", f"{each.name}={HOST}:{each.port}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokerUnavailableError(f"penstock cluster format failed: {done.stderr[-2000:]}")

    def data(self, server: ClusterServer) -> Path:
        return server.folder / "data"

    def _launch(self, server: ClusterServer) -> None:
        arguments = ["serve", "--data", str(self.data(server))]
        arguments += ["--http-port", str(server.http_port)]
        server.launch([*penstock_command(), *arguments], {**os.environ, "PENSTOCK_PURE": "0"})

    def _wait_ready(self, server: ClusterServer) -> None:
        deadline = time.monotonic() + FIRST_READY_SECONDS_MAX
        while (found := READY_LINE.search(server.output())) is None:
            if server.has_ended or time.monotonic() > deadline:
                complaint = server.output()[-2000:]
                raise BrokerUnavailableError(f"penstock {server.name} did not start: {complaint}")
            time.sleep(POLL_SECONDS)
        server.pid = int(found["pid"])

    def restart(self, server: ClusterServer) -> None:
        """Start a server that was killed, with what was left on its disk."""
        self._launch(server)
        self._wait_ready(server)

    def lose_data(self, server: ClusterServer) -> None:
        """Kill a server and start it with an empty data directory, as after a lost disk. Returns once
        the cluster has accepted it.
        """
        server.kill()
        shutil.rmtree(self.data(server))
        self.format(server)
        self.restart(server)
        root = self.root()
        command = [*penstock_command(), "cluster", "replace", server.name]
        command += ["--server", f"http://{HOST}:{root.http_port}"]
        deadline = time.monotonic() + REPLACE_SECONDS_MAX
        while (
            done := subprocess.run(command, capture_output=True, text=True, check=False)
        ).returncode:
            # The root has to hear of the new directory first.
            if time.monotonic() > deadline:
                raise BrokerUnavailableError(
                    f"penstock cluster replace failed: {done.stderr[-2000:]}"
                )
            time.sleep(REPLACE_RETRY_SECONDS)

    def status(self, server: ClusterServer) -> dict[str, Any]:
        """Empty while the server does not answer."""
        address = f"http://{HOST}:{server.http_port}/api/cluster"
        try:
            with urllib.request.urlopen(address, timeout=STATUS_SECONDS_MAX) as answer:
                said = json.loads(answer.read())
        except (OSError, urllib.error.URLError, ValueError):
            return {}
        return said if isinstance(said, dict) else {}

    def root(self) -> ClusterServer:
        """Found with a login: only the root opens connections, and it does so once it is active."""
        for server in self.servers:
            if not server.has_ended and accepts_clients(server.port):
                return server
        raise BrokerUnavailableError(f"no server of {self.name} is an active root")

    def epoch(self) -> int:
        found = [self.status(server).get("epoch", -1) for server in self.servers]
        return max(found, default=-1)

    def wait_until_whole(self) -> None:
        """Until there is an active root and every member is in sync."""
        self.wait_until(self.is_whole, "three members in sync")

    def is_whole(self) -> bool:
        for server in self.servers:
            status = self.status(server)
            if status.get("root") == server.name:
                members = status.get("members", [])
                return len(members) == SERVERS and all(each["in_sync"] for each in members)
        return False

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WHOLE_SECONDS_MAX
        while not condition():
            for server in self.servers:
                if server.has_ended:
                    raise BrokerUnavailableError(
                        f"penstock {server.name} ended: {server.output()[-2000:]}"
                    )
            if time.monotonic() > deadline:
                logs = "\n".join(server.output()[-1500:] for server in self.servers)
                raise BrokerUnavailableError(f"timed out waiting for {what}: {logs}")
            time.sleep(POLL_SECONDS)


def accepts_clients(port: int) -> bool:
    """Whether a login at this port leads to an open connection within a moment."""
    try:
        Session(HOST, port, seconds_max=STATUS_SECONDS_MAX).close()
    except (OSError, BrokerRefusedError):
        return False
    return True
