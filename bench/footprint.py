"""What a broker costs before it does anything: start-up time and idle connections."""

import dataclasses
import json
import os
import resource
import subprocess
import sys
import time

from bench.brokers import PROJECT_ROOT
from bench.cpu import tree_resident_bytes
from bench.running import HOST, RunningBroker
from bench.session import Session

# Opened before the first reading, so that code and tables which the first connections pull into
# memory are not charged to the connections.
FIRST_CONNECTIONS = 50

# A broker may release memory of the handshakes; its memory is measured after this time.
SETTLE_SECONDS = 2.0

# Descriptors the bench needs beside the idle connections.
SPARE_DESCRIPTORS = 200

STARTS = 3

IN_PROCESS_START = """
import time
from penstock import Broker
started = time.perf_counter()
with Broker():
    print(time.perf_counter() - started)
"""


@dataclasses.dataclass(frozen=True, slots=True)
class IdleSample:
    """Resident memory of the broker's processes; the kernel's socket buffers are not in it."""

    connections: int
    seconds: float
    bytes_each: float


@dataclasses.dataclass(frozen=True, slots=True)
class Startup:
    """Seconds from the start of the command until its ready line, and until a client's login.

    Not every broker has such a line.
    """

    ready: float | None
    login: float


def raise_descriptor_limit() -> int:
    """Raise it as far as allowed; brokers started afterwards inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def measure_idle_connections(broker: RunningBroker, count: int) -> IdleSample:
    """`broker` should be fresh: one that has been under load has free memory to reuse and would
    seem to need less.
    """
    count = min(count, raise_descriptor_limit() - SPARE_DESCRIPTORS)
    sessions: list[Session] = []
    try:
        for _ in range(FIRST_CONNECTIONS):
            sessions.append(Session(HOST, broker.port, channel=False))
        time.sleep(SETTLE_SECONDS)
        before = tree_resident_bytes(broker.pid)
        started = time.perf_counter()
        for _ in range(count):
            sessions.append(Session(HOST, broker.port, channel=False))
        seconds = time.perf_counter() - started
        time.sleep(SETTLE_SECONDS)
        grown = tree_resident_bytes(broker.pid) - before
    finally:
        for session in sessions:
            session.close()
    return IdleSample(count, seconds, grown / count)


def measure_startup(kind: type[RunningBroker]) -> list[Startup]:
    starts = []
    for _ in range(STARTS):
        broker = kind()
        broker.stop()
        starts.append(Startup(broker.ready_seconds, broker.startup_seconds))
    return starts


def measure_in_process_startup() -> list[Startup]:
    """Seconds until `Broker()` is ready, imports not counted, each in a fresh interpreter."""
    environment = {**os.environ, "PYTHONPATH": str(PROJECT_ROOT / "src")}
    starts = []
    for _ in range(STARTS):
        done = subprocess.run(
            [sys.executable, "-c", IN_PROCESS_START],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode:
            return []
        seconds = float(json.loads(done.stdout))
        starts.append(Startup(seconds, seconds))
    return starts
