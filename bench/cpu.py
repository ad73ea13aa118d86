"""CPU time, memory and disk writes of a process and everything it started, read from /proc.

CPU time includes children that have already ended and been waited for, so a helper process that
dies inside the measured window is not lost.
"""

import os
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def process_tree(pid: int) -> list[int]:
    """The process and its living descendants; those that vanish while we look are left out."""
    found = [pid]
    for parent in found:
        try:
            tasks = list(Path(f"/proc/{parent}/task").iterdir())
            for task in tasks:
                found += [int(child) for child in (task / "children").read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def tree_cpu_seconds(pid: int) -> float:
    ticks = 0
    for member in process_tree(pid):
        try:
            stat = Path(f"/proc/{member}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        # The command name may hold spaces and brackets; the fields that count follow the last one.
        fields = stat.rpartition(")")[2].split()
        ticks += sum(int(field) for field in fields[11:15])
    return ticks / TICKS_PER_SECOND


def tree_resident_bytes(pid: int) -> int:
    total = 0
    for member in process_tree(pid):
        try:
            pages = int(Path(f"/proc/{member}/statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += pages * os.sysconf("SC_PAGE_SIZE")
    return total


def tree_peak_resident_bytes(pid: int) -> int:
    """The sum of each member's own peak: an upper bound of the tree's."""
    return 1024 * sum(
        _number_after("VmHWM:", Path(f"/proc/{member}/status")) for member in process_tree(pid)
    )


def tree_written_bytes(pid: int) -> int:
    """Bytes that were passed to the kernel for a disk; 0 without permission to read it."""
    return sum(
        _number_after("write_bytes:", Path(f"/proc/{member}/io")) for member in process_tree(pid)
    )


def _number_after(name: str, path: Path) -> int:
    try:
        lines = path.read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)
