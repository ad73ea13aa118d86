"""What all brokers under test have in common: each is a process tree of its own on loopback.

Every broker gets a fresh data directory and free ports, so that a run does not collide with an
installed service, and leaves nothing behind but its results.
"""

import abc
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from bench.cpu import process_tree
from bench.session import Session

HOST = "127.0.0.1"

STOP_SECONDS_MAX = 15.0

# The unit of stat's st_blocks, whatever the file system's own.
STAT_BLOCK_BYTES = 512


class BrokerUnavailableError(Exception):
    """The broker cannot be measured here; the text says why and what to do."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class RunningBroker(abc.ABC):
    """One broker process tree. The run holds it from start to stop."""

    name: str
    version: str

    # Whether it listens with TLS as well.
    is_secure = False

    def __init__(self) -> None:
        self.port = 0
        self.tls_port = 0
        self.pid = 0
        # From the start of the command: until its ready line (None: it has none), and until a
        # client has logged in.
        self.ready_seconds: float | None = None
        self.startup_seconds = 0.0
        self._folder = Path(tempfile.mkdtemp(prefix=f"penstock-bench-{self.name}-"))
        self.authority = self._folder / "certificate.pem"
        self._process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        """Start it the first time, and again after `kill` with what was left on the disk."""
        started = time.perf_counter()
        try:
            self._launch(started)
            Session(HOST, self.port).close()
        except BaseException:
            self.stop()
            raise
        self.startup_seconds = time.perf_counter() - started

    @abc.abstractmethod
    def _launch(self, started: float) -> None:
        """Starts the process and returns once its port answers; sets `port` and `pid`."""

    @abc.abstractmethod
    def data_bytes(self) -> int:
        """The disk space of the broker's data."""

    def kill(self) -> None:
        """Kill all processes at once, without an orderly stop."""
        assert self._process is not None
        for member in process_tree(self._process.pid):
            send_signal(member, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None:
            end_tree(self._process)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _output(self) -> str:
        return (self._folder / "output").read_text(errors="replace")


def end_tree(process: subprocess.Popen[str]) -> None:
    """Terminates the whole tree, then kills it. Only ever a tree that this bench started."""
    members = process_tree(process.pid)
    for member in members:
        send_signal(member, signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        for member in process_tree(process.pid):
            send_signal(member, signal.SIGKILL)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def disk_bytes(folder: Path) -> int:
    """Blocks in use, not lengths: preallocated and sparse files count for what they take."""
    total = 0
    for within, _, names in os.walk(folder):
        for name in names:
            # Files are created and removed meanwhile.
            with contextlib.suppress(FileNotFoundError):
                total += (Path(within) / name).stat().st_blocks * STAT_BLOCK_BYTES
    return total


def send_signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
