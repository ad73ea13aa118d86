"""A server of the demo: a process that can be killed and restarted on its ports and data."""

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import IO, Final, Self

READY: Final = "penstock ready "

# How long a broker may take to close its connections; then it is killed.
STOP_SECONDS_MAX: Final = 10.0
# A health check is answered at once; a server that was killed refuses.
ANSWER_SECONDS_MAX: Final = 2.0
OK: Final = 200


class BrokerDidNotStart(Exception):
    """The child process did not print the ready line."""


class DemoBroker:
    """Held by the demo's cluster, or by an example's test. Its ports stay the same over restarts."""

    def __init__(self, data: Path, port: int = 0) -> None:
        self.data: Path = data
        # Beside the data: the broker's log must not disturb the demo's display.
        self.log: Path = data.with_name(f"{data.name}.log")
        self._amqp: str = f"127.0.0.1:{port}"
        self._http: str = "127.0.0.1:0"
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        # The CPU time of processes that have ended.
        self._cpu_seconds_before: float = 0.0

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def amqp_uri(self) -> str:
        return f"amqp://guest:guest@{self._amqp}"

    @property
    def http_uri(self) -> str:
        return f"http://guest:guest@{self._http}/"

    def is_running(self) -> bool:
        return self._process is not None

    def is_at(self, path: str) -> bool:
        """Whether it answers a request for a page with 200."""
        try:
            url = f"http://{self._http}{path}"
            with urllib.request.urlopen(url, timeout=ANSWER_SECONDS_MAX) as answer:
                return bool(answer.status == OK)
        except OSError:
            return False

    @property
    def address(self) -> str:
        return self._amqp

    def start(self) -> float:
        """Start it and wait until it is ready; returns how many seconds that took."""
        began = time.monotonic()
        self._process = process = self._spawn()
        assert process.stdout is not None
        # Its later output must be read, or a full pipe would block it.
        self._reader = threading.Thread(target=process.stdout.read, daemon=True)
        facts = facts_of_ready(process.stdout, self.log)
        self._reader.start()
        self._amqp, self._http = facts["amqp"], facts["http"]
        return time.monotonic() - began

    def _spawn(self) -> subprocess.Popen[str]:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("a") as log:
            return subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "penstock",
                    "serve",
                    f"--port={self._amqp.rpartition(':')[2]}",
                    f"--http-port={self._http.rpartition(':')[2]}",
                    f"--data={self.data}",
                    "--ledger",
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self._cpu_seconds_before = self.cpu_seconds() or 0.0
        assert self._process is not None
        self._process.kill()
        self._clean_up()

    def stop(self) -> None:
        """Does nothing when it has ended already."""
        process = self._process
        if process is None:
            return
        self._cpu_seconds_before = self.cpu_seconds() or 0.0
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
        self._clean_up()

    def cpu_seconds(self) -> float | None:
        """The CPU time of all its processes so far; None where it is not available."""
        if self._process is None:
            return self._cpu_seconds_before
        now = cpu_seconds_of(self._process.pid)
        return None if now is None else self._cpu_seconds_before + now

    def _clean_up(self) -> None:
        process, self._process = self._process, None
        assert process is not None
        assert process.stdout is not None
        process.wait()
        if self._reader is not None and self._reader.ident is not None:
            self._reader.join()
        process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def facts_of_ready(said: IO[str], log: Path) -> dict[str, str]:
    """The facts of the line `penstock ready amqp=HOST:PORT pid=N`; lines before it are skipped."""
    for line in said:
        if line.startswith(READY):
            return dict(fact.split("=", 1) for fact in line.removeprefix(READY).split())
    heard = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    last = heard[-1] if heard else ""
    raise BrokerDidNotStart(f"the broker did not start; the last line of its log is {last!r}")


def cpu_seconds_of(pid: int) -> float | None:
    """User and system time so far; None where there is no /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The program's name may hold spaces; what follows it is counted from its last parenthesis.
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
