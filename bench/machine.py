"""Facts about the machine that go beside every figure."""

import os
import platform
import sys
from pathlib import Path


def machine_facts() -> dict[str, str | int | list[float]]:
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": processor_name(),
        "kernel": platform.release(),
        "python": sys.version.split()[0],
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def processor_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
