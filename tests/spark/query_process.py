"""Runs `killed_query`, or a script like it, in a process group of its own, which it may kill as a whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("killed_query.py")
ROOT = SCRIPT.parent.parent.parent


class KillableQuery:
    """One query over several lives of its driver."""

    def __init__(self, folder: Path, script: Path = SCRIPT, **options: str) -> None:
        self._script = script
        self._options = options
        self._checkpoint = folder / "checkpoint"
        self._out = folder / "out"
        self._out.mkdir(parents=True)

    def run(self, step: str, batch: int) -> None:
        """Until it is killed at a step of a micro-batch, or, with the step `never`, until it ends."""
        process = subprocess.Popen(
            [
                sys.executable,
                str(self._script),
                json.dumps(self._options),
                str(self._checkpoint),
                str(self._out),
                step,
                str(batch),
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        _, errors = process.communicate(timeout=300)
        expected = 0 if step == "never" else -signal.SIGKILL
        assert process.returncode == expected, errors[-3000:]

    def rows(self) -> list[tuple[int, str]]:
        """Everything the sink has, micro-batches in order."""
        files = sorted(self._out.glob("*.json"), key=lambda path: int(path.stem))
        return [(row[0], row[1]) for file in files for row in json.loads(file.read_text())]
