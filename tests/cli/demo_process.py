"""Runs `penstock demo` as a process, and reads its verdict."""

from __future__ import annotations

import os
import re
import subprocess
import sys


def run_demo(*options: str, seconds: float = 110) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock", "demo", *options],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env={**os.environ, "COLUMNS": "120"},
    )


def row_of(table: str, name: str) -> list[str]:
    """The cells beside a name in what was printed."""
    line = next(line for line in table.splitlines() if re.match(rf"│ {name}\s+│", line))
    return [cell.strip() for cell in line.strip("│").split("│")][1:]
