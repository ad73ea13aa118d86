"""`penstock cluster up`: several servers on this machine, in the foreground."""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.cluster.member import Member
from penstock.server.cluster_directory import FOLDER, MEMBER_NAME, format_directory
from penstock.server.data_directory import DataDirectoryError
from penstock.server.world.clock import MachineClock
from penstock.server.world.entropy import MachineEntropy

if TYPE_CHECKING:
    from collections.abc import Callable

# Enough for a slow machine: a server needs about a second.
READY_SECONDS: Final = 60.0
# How long the servers have to stop after Ctrl-C; then they are killed.
STOP_SECONDS: Final = 15.0
# How often it is checked whether all of them run.
LOOK_SECONDS: Final = 0.2
FAILED: Final = 1
_NAMES: Final = "abcdefghijklmno"


@dataclass(frozen=True, slots=True)
class Chaos:
    """How often a server is killed, at random between the two numbers. Given to `ClusterUp`."""

    # Between two kills: a cluster recovers within five seconds.
    between_seconds: tuple[float, float] = (8.0, 15.0)
    # How long a killed server stays away.
    away_seconds: tuple[float, float] = (1.0, 6.0)


@dataclass(slots=True)
class UpServer:
    """One of the servers. Held by `ClusterUp`."""

    name: str
    data: Path
    log: Path
    process: subprocess.Popen[bytes] | None = None
    ready: str = ""


class ClusterUp:
    """Held by the command while the cluster runs."""

    def __init__(
        self, count: int, data: Path | None, chaos: Chaos | None, say: Callable[[str], None]
    ) -> None:
        self._is_temporary = data is None
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-cluster-")) if data is None else data
        self._count = count
        self._chaos = chaos
        self._say = say
        self._servers: list[UpServer] = []
        self._is_stopping = False

    def run(self) -> int:
        """Returns the exit code when all have stopped."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        try:
            self._format()
            for server in self._servers:
                self._start(server)
            for server in self._servers:
                self._await_ready(server)
            self._tell()
            return self._watch()
        except (DataDirectoryError, UpFailed) as error:
            self._say(f"penstock: {error}")
            return FAILED
        finally:
            self._end()

    def _stop(self, number: int, frame: object) -> None:
        del number, frame
        self._is_stopping = True

    def _format(self) -> None:
        """Directories of an earlier run are used again, with the ports that they have."""
        names = list(_NAMES[: self._count])
        self._folder.mkdir(parents=True, exist_ok=True)
        self._servers = [
            UpServer(name, self._folder / name, self._folder / f"{name}.log") for name in names
        ]
        made = [server for server in self._servers if (server.data / FOLDER / MEMBER_NAME).exists()]
        if made:
            if len(made) < len(names):
                raise UpFailed(
                    f"{self._folder} holds a cluster of {len(made)} servers; say --servers "
                    f"{len(made)}, or name another directory"
                )
            return
        format_here({server.name: server.data for server in self._servers})

    def _start(self, server: UpServer) -> None:
        command = [sys.executable, "-m", "penstock", "serve", "--data", str(server.data)]
        # A restarted server is looked at where it was.
        http_port = _fact(server.ready, "http").rpartition(":")[2] or "0"
        with server.log.open("ab") as log:
            server.process = subprocess.Popen(
                [*command, "--http-port", http_port],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                # Ctrl-C reaches this process alone, which stops them in order.
                start_new_session=True,
            )

    def _await_ready(self, server: UpServer) -> None:
        process = server.process
        assert process is not None, "started before"
        assert process.stdout is not None, "a pipe"
        os.set_blocking(process.stdout.fileno(), False)
        until = time.monotonic() + READY_SECONDS
        while time.monotonic() < until and not self._is_stopping:
            line = process.stdout.readline()
            if line:
                server.ready = line.decode().strip().removeprefix("penstock ready ")
                return
            if process.poll() is not None:
                break
            time.sleep(LOOK_SECONDS / 4)
        if not self._is_stopping:
            raise UpFailed(f"server {server.name!r} did not start; see {server.log}")

    def _tell(self) -> None:
        for server in self._servers:
            self._say(f"{server.name}  {server.ready}  log {server.log}")
        addresses = ",".join(_fact(server.ready, "amqp") for server in self._servers)
        self._say(f"clients: amqp://guest:guest@{addresses}/")
        http = _fact(self._servers[0].ready, "http")
        self._say(f"look: penstock cluster status --server http://{http} --watch")
        self._say("Ctrl-C stops all of them")

    def _watch(self) -> int:
        chaos = self._chaos
        chaos_at = math.inf if chaos is None else _after(chaos.between_seconds)
        while not self._is_stopping:
            time.sleep(LOOK_SECONDS)
            for server in self._servers:
                if server.process is not None and server.process.poll() is not None:
                    code = server.process.returncode
                    raise UpFailed(f"server {server.name!r} ended with {code}; see {server.log}")
            if chaos is not None and time.monotonic() >= chaos_at:
                self._make_chaos(random.choice(self._servers), chaos)
                chaos_at = _after(chaos.between_seconds)
        return 0

    def _make_chaos(self, server: UpServer, chaos: Chaos) -> None:
        process = server.process
        assert process is not None, "it runs"
        role = _role(server)
        self._say(f"{time.strftime('%H:%M:%S')} killing {server.name} ({role})")
        process.kill()
        process.wait()
        until = _after(chaos.away_seconds)
        while time.monotonic() < until and not self._is_stopping:
            time.sleep(LOOK_SECONDS)
        if self._is_stopping:
            return
        self._start(server)
        self._await_ready(server)
        self._say(f"{time.strftime('%H:%M:%S')} restarted {server.name}  {server.ready}")

    def _end(self) -> None:
        running = [
            server.process
            for server in self._servers
            if server.process is not None and server.process.poll() is None
        ]
        for process in running:
            process.terminate()
        until = time.monotonic() + STOP_SECONDS
        for process in running:
            try:
                process.wait(max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._is_temporary and self._is_stopping:
            shutil.rmtree(self._folder, ignore_errors=True)


class UpFailed(Exception):
    """The text is for the operator."""


def format_here(folders: dict[str, Path]) -> dict[str, int]:
    """Format the data directories of servers, by their names, on free ports of this machine.
    Returns the ports. Raises `DataDirectoryError`.
    """
    key = secrets.token_hex(32).encode()
    ports = dict(zip(folders, free_ports(len(folders)), strict=True))
    members = [Member(name, f"127.0.0.1:{port}") for name, port in ports.items()]
    for name, data in folders.items():
        asyncio.run(_format_one(data, name, members, key))
    return ports


async def _format_one(data: Path, name: str, members: list[Member], key: bytes) -> None:
    loop = asyncio.get_running_loop()
    format_directory(data, name, members, key, MachineClock(), MachineEntropy(), loop)


def _after(seconds: tuple[float, float]) -> float:
    """A moment between these from now, at random."""
    return time.monotonic() + random.uniform(*seconds)


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _fact(ready: str, name: str) -> str:
    for word in ready.split():
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return ""


def _role(server: UpServer) -> str:
    """What the server says it is; it may be busy."""
    import urllib.error
    import urllib.request

    try:
        url = f"http://{_fact(server.ready, 'http')}/api/cluster"
        with urllib.request.urlopen(url, timeout=1) as answer:
            return str(json.load(answer)["role"])
    except (OSError, ValueError, KeyError, urllib.error.URLError):
        return "role not known"
