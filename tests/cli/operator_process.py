"""The real `penstock` command as a process, against a real broker."""

import json
import os
import subprocess
import sys
from pathlib import Path

# A loaded machine is slow; a command takes a fraction of a second.
END_SECONDS = 120


class Operator:
    """Somebody at a terminal, or a script. Held by a test."""

    def __init__(self, server: str, home: Path, **variables: str) -> None:
        self.server = server
        kept = {key: os.environ[key] for key in os.environ if not key.startswith("PENSTOCK_SERVER")}
        # Not the profile of whoever runs the tests.
        self.environment = {**kept, "XDG_CONFIG_HOME": str(home), "HOME": str(home), **variables}
        if server:
            self.environment["PENSTOCK_SERVER"] = server

    def run(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "penstock", *words],
            input=given,
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=END_SECONDS,
            check=False,
        )

    def done(self, *words: str, given: str = "") -> str:
        result = self.run(*words, given=given)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def json(self, *words: str) -> object:
        read: object = json.loads(self.done(*words, "--json"))
        return read

    def rows(self, *words: str) -> list[dict[str, object]]:
        read = self.json(*words)
        assert isinstance(read, list)
        return read
