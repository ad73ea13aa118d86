"""One client library: a sender and a receiver of one queue, as processes, and their account."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.interop import foreign_clients
from tests.support.served import END_SECONDS

PROJECT = Path(__file__).parents[3]
RHEA = "rhea"
CLIENTS = ("pika", "aio_pika", "celery", "proton", RHEA)


class Pair:
    """Ended by whoever started it."""

    def __init__(self, client: str, servers: str, folder: Path) -> None:
        self.client = client
        self.queue = f"failover.{client}"
        self._servers = servers
        self._sent = folder / f"{client}.sent"
        self._received = folder / f"{client}.received"
        self._receiver = self._launch("receive", self._received)
        self._sender = self._launch("send", self._sent)

    def _launch(self, role: str, lines: Path) -> subprocess.Popen[bytes]:
        program = [sys.executable, "-m", f"tests.interop.failover.{self.client}_client"]
        environment = dict(os.environ)
        if self.client == RHEA:
            script = PROJECT / "tests" / "interop" / "rhea" / "failover.cjs"
            program = ["node", str(script)]
            packages = foreign_clients.node_packages(RHEA)
            environment["NODE_PATH"] = str(packages / "node_modules")
        with lines.open("wb") as output, lines.with_suffix(f".{role}.log").open("wb") as errors:
            return subprocess.Popen(
                [*program, role, self.queue, self._servers],
                cwd=PROJECT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=errors,
            )

    def confirmed(self) -> list[int]:
        return [int(words[1]) for words in _lines(self._sent, "confirmed")]

    def received(self) -> list[tuple[int, bool]]:
        """Each delivery: the number of the message, and whether it was flagged."""
        lines = _lines(self._received, "received")
        return [(int(words[1]), words[2] == "flagged") for words in lines]

    def progress(self) -> tuple[int, int]:
        return len(self.confirmed()), len(self.received())

    def has_more_than(self, before: tuple[int, int]) -> bool:
        """Whether both sides have done something since; fails if one of them has ended."""
        for process in (self._sender, self._receiver):
            assert process.poll() is None, f"{self.client} ended: {self.complaints()}"
        now = self.progress()
        return now[0] > before[0] and now[1] > before[1]

    def finish_sending(self) -> None:
        """Waits until everything that was sent is confirmed."""
        assert self._sender.stdin is not None
        self._sender.stdin.close()
        code = self._sender.wait(END_SECONDS)
        assert code == 0, f"{self.client} ended with {code}: {self.complaints()}"

    def missing(self) -> list[int]:
        """Confirmed, and not received so far."""
        return sorted(set(self.confirmed()) - {number for number, _ in self.received()})

    def is_complete(self) -> bool:
        return not self.missing()

    def repeated_unflagged(self) -> list[int]:
        """Received more than once without a flag."""
        firsts = Counter(number for number, is_flagged in self.received() if not is_flagged)
        return sorted(number for number, count in firsts.items() if count > 1)

    def repeated(self) -> int:
        """How many deliveries were flagged repetitions."""
        received = [number for number, _ in self.received()]
        return len(received) - len(set(received))

    def complaints(self) -> str:
        """The last lines of the error logs."""
        logs = self._sent.parent.glob(f"{self.client}.*.log")
        return "\n".join(log.read_text("utf-8", "replace")[-2000:] for log in sorted(logs))

    def end(self) -> None:
        for process in (self._sender, self._receiver):
            if process.poll() is None:
                process.kill()
            process.wait()
            assert process.stdin is not None
            process.stdin.close()


def _lines(file: Path, first_word: str) -> list[list[str]]:
    """The complete lines so far, in words. A client may print something else between them."""
    text = file.read_text(encoding="utf-8")
    lines = text[: text.rfind("\n") + 1].splitlines()
    return [line.split() for line in lines if line.startswith(f"{first_word} ")]
