"""Facts about the machine that go beside every figure."""

import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

# Enough for a median, and quick on any disk that is suitable for a broker.
SYNCS = 20
SYNC_BYTES = 4096


def machine_facts() -> dict[str, str | int | float | list[float]]:
    folder = Path(tempfile.gettempdir())
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": processor_name(),
        "kernel": platform.release(),
        "python": sys.version.split()[0],
        "disk": file_system(folder),
        "fsync_microseconds": round(fsync_seconds(folder) * 1e6),
        "load_average": load_average(),
    }


def load_average() -> list[float]:
    return [round(load, 2) for load in os.getloadavg()]


def processor_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def file_system(folder: Path) -> str:
    """Its type; on a tmpfs, durable figures are meaningless."""
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, found, *_ = line.split()
        if folder.resolve().is_relative_to(point) and len(point) >= len(best):
            best, kind = point, found
    return kind


def fsync_seconds(folder: Path) -> float:
    """How long it takes to append a page and have it on the disk."""
    seconds = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(SYNCS):
            started = time.perf_counter()
            file.write(bytes(SYNC_BYTES))
            file.flush()
            os.fsync(file.fileno())
            seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)
