"""The server under test: a process of its own, with its log, its memory and a broom."""

from __future__ import annotations

import os
import re
import subprocess
import time
import urllib.request
from base64 import b64encode
from pathlib import Path

from penstock.client.blocking import connect
from penstock.client.calls import delete_queue
from tests.support.served import amqp_port, launch, ready_facts

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# A line of the log that tells of a defect of ours.
ALARMING = re.compile(
    r"Traceback|\[(error|critical)|\"level\": \"(error|critical)|assert", re.IGNORECASE
)
END_SECONDS = 60


class Target:
    """Started by the command, stopped at its end."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "server.log"
        self._errors = self._log.open("w")
        self.process: subprocess.Popen[str] = launch(
            "--port=0", "--http-port=0", f"--data={folder / 'data'}", errors=self._errors
        )
        facts = ready_facts(self.process)
        self.amqp_port = amqp_port(facts)
        self.http_port = int(facts["http"].partition(",")[0].rpartition(":")[2])

    def resident_bytes(self) -> int:
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * PAGE_BYTES

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def alarming_lines(self) -> list[str]:
        with self._log.open(errors="replace") as lines:
            return [line.rstrip() for line in lines if ALARMING.search(line)]

    def log_bytes(self) -> int:
        return self._log.stat().st_size

    def sweep(self) -> int:
        """Delete every queue, so that what was declared does not count as growth; how many."""
        names = set(re.findall(r'queue="((?:[^"\\]|\\.)*)"', self._metrics()))
        with connect(f"amqp://guest:guest@127.0.0.1:{self.amqp_port}") as connection:
            channel = connection.channel()
            for name in names:
                plain = name.replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")
                channel.call(delete_queue(plain))
        return len(names)

    def _metrics(self) -> str:
        request = urllib.request.Request(f"http://127.0.0.1:{self.http_port}/metrics/per-queue")
        request.add_header("Authorization", "Basic " + b64encode(b"guest:guest").decode())
        with urllib.request.urlopen(request, timeout=END_SECONDS) as answer:
            text: bytes = answer.read()
        return text.decode()

    def stop(self) -> int:
        """Told to stop as an operator does; its exit code."""
        self.process.terminate()
        deadline = time.monotonic() + END_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self._errors.close()
        return self.process.returncode
