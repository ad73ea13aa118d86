"""The servers of a cluster as processes on this machine: formatted, started, stopped."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.cluster.member import Member
from penstock.server.cluster_directory import FOLDER, MEMBER_NAME, format_directory
from penstock.server.world.clock import MachineClock
from penstock.server.world.entropy import MachineEntropy

if TYPE_CHECKING:
    from pathlib import Path

# Enough for a slow machine: a server needs about a second.
READY_SECONDS: Final = 60.0
# How long the servers have to stop; then they are killed.
STOP_SECONDS: Final = 15.0
LOOK_SECONDS: Final = 0.05
# For one question over HTTP.
ANSWER_SECONDS: Final = 1.0
_NAMES: Final = "abcdefghijklmno"


class ServersFailed(Exception):
    """The text is for the operator."""


@dataclass(slots=True)
class LocalServer:
    """One of the servers. Held by `LocalServers`."""

    name: str
    data: Path
    log: Path
    process: subprocess.Popen[bytes] | None = None
    # The facts of its ready line, which stay when it is started again.
    ready: str = ""
    is_paused: bool = False

    def fact(self, name: str) -> str:
        for word in self.ready.split():
            if word.startswith(f"{name}="):
                return word.partition("=")[2]
        return ""

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def status(self) -> dict[str, object]:
        """What it says of the cluster; empty when it does not answer."""
        if not self.is_running() or self.is_paused:
            return {}
        try:
            url = f"http://{self.fact('http')}/api/cluster"
            with urllib.request.urlopen(url, timeout=ANSWER_SECONDS) as answer:
                told = json.load(answer)
        except (OSError, ValueError, urllib.error.URLError):
            return {}
        return told if isinstance(told, dict) else {}

    def role(self) -> str:
        return str(self.status().get("role", "role not known"))

    def kill(self) -> None:
        assert self.process is not None, "it runs"
        self.process.kill()
        self.process.wait()
        self.is_paused = False

    def pause(self) -> None:
        assert self.process is not None, "it runs"
        self.process.send_signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        assert self.process is not None, "it runs"
        self.process.send_signal(signal.SIGCONT)
        self.is_paused = False

    def stop(self) -> None:
        """In order; killed if that takes too long."""
        assert self.process is not None, "it runs"
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()


class LocalServers:
    """All servers of one cluster. Held by the command that runs it."""

    def __init__(self, folder: Path, count: int, ledger: bool = False) -> None:
        """With `ledger` every server keeps one in its data directory."""
        self._folder = folder
        self._options = ["--ledger"] if ledger else []
        self.servers = [
            LocalServer(name, folder / name, folder / f"{name}.log") for name in _NAMES[:count]
        ]
        # Whether somebody wants it to end, so that nothing is awaited any more.
        self.is_stopping = False

    def format(self) -> None:
        """Directories of an earlier run are used again, with the ports that they have. Raises
        `ServersFailed` and `DataDirectoryError`.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        made = [server for server in self.servers if (server.data / FOLDER / MEMBER_NAME).exists()]
        if made:
            if len(made) < len(self.servers):
                raise ServersFailed(
                    f"{self._folder} holds a cluster of {len(made)} servers; say --servers "
                    f"{len(made)}, or name another directory"
                )
            return
        format_here({server.name: server.data for server in self.servers})

    def start_all(self) -> None:
        for server in self.servers:
            self.launch(server)
        for server in self.servers:
            self.await_ready(server)

    def start(self, server: LocalServer) -> None:
        self.launch(server)
        self.await_ready(server)

    def launch(self, server: LocalServer) -> None:
        """Without waiting for it."""
        command = [sys.executable, "-m", "penstock", "serve", "--data", str(server.data)]
        # A restarted server is looked at where it was.
        http_port = server.fact("http").rpartition(":")[2] or "0"
        with server.log.open("ab") as log:
            server.process = subprocess.Popen(
                [*command, "--http-port", http_port, *self._options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                # Ctrl-C reaches this process alone, which stops them in order.
                start_new_session=True,
            )

    def await_ready(self, server: LocalServer) -> None:
        """Raises `ServersFailed`."""
        process = server.process
        assert process is not None, "launched before"
        assert process.stdout is not None, "a pipe"
        os.set_blocking(process.stdout.fileno(), False)
        until = time.monotonic() + READY_SECONDS
        while time.monotonic() < until and not self.is_stopping:
            line = process.stdout.readline()
            if line:
                server.ready = line.decode().strip().removeprefix("penstock ready ")
                return
            if process.poll() is not None:
                break
            time.sleep(LOOK_SECONDS)
        if not self.is_stopping:
            raise ServersFailed(f"server {server.name!r} did not start; see {server.log}")

    def uri(self) -> str:
        """For clients."""
        addresses = ",".join(server.fact("amqp") for server in self.servers)
        return f"amqp://guest:guest@{addresses}/"

    def end(self) -> None:
        """All of them that run, also those that are paused."""
        running = [server for server in self.servers if server.is_running()]
        for server in running:
            assert server.process is not None, "it runs"
            if server.is_paused:
                server.resume()
            server.process.terminate()
        until = time.monotonic() + STOP_SECONDS
        for server in running:
            assert server.process is not None, "it runs"
            with suppress(subprocess.TimeoutExpired):
                server.process.wait(max(until - time.monotonic(), 0.1))
            if server.is_running():
                server.kill()


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
