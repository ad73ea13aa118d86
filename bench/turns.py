"""A broker that measures the turns of its event loop: `python -m bench.turns FILE`.

It runs without a data directory on free ports of loopback. After every SIGUSR1 it writes to FILE what
it measured since the last one, as JSON, and begins anew.

The loop is kept busy with a call that asks for the next turn. Of every turn are measured
- the CPU time of the loop's thread: the longest one is the longest step of the loop;
- the CPU time of all threads, or the time on the clock if that is shorter: the loop may have waited
  for the interpreter, which another thread or the collector of garbage held.
Both count what the process does itself, so other programs on the machine do not change the first, and
the second only when they leave no core to the loop's thread.
"""

import asyncio
import gc
import json
import signal
import sys
import time
from pathlib import Path
from typing import Final

from penstock.server.http.settings import HttpConfiguration
from penstock.server.launch import serve
from penstock.server.running import Running
from penstock.server.server_configuration import ServerConfiguration

HOST: Final = "127.0.0.1"


class TurnWatch:
    """Held by the loop's next call."""

    def __init__(self, loop: asyncio.AbstractEventLoop, file: Path) -> None:
        self._loop = loop
        self._file = file
        self._collection_began = 0.0
        self._reset()
        gc.callbacks.append(self._collected)
        loop.add_signal_handler(signal.SIGUSR1, self._report)
        loop.call_soon(self._turn)

    def _reset(self) -> None:
        self._turns = 0
        self._step = 0.0
        self._stop = 0.0
        self._collections = [0, 0, 0]
        self._collection = 0.0
        self._mark()

    def _mark(self) -> None:
        self._wall = time.perf_counter()
        self._thread = time.thread_time()
        self._process = time.process_time()

    def _turn(self) -> None:
        step = time.thread_time() - self._thread
        stop = min(time.process_time() - self._process, time.perf_counter() - self._wall)
        self._turns += 1
        self._step = max(self._step, step)
        self._stop = max(self._stop, stop)
        self._mark()
        self._loop.call_soon(self._turn)

    def _collected(self, phase: str, facts: dict[str, int]) -> None:
        if phase == "start":
            self._collection_began = time.thread_time()
            return
        self._collections[facts["generation"]] += 1
        self._collection = max(self._collection, time.thread_time() - self._collection_began)

    def _report(self) -> None:
        found = {
            "turns": self._turns,
            "step_ms": round(self._step * 1000, 3),
            "stop_ms": round(self._stop * 1000, 3),
            "collections": self._collections,
            "collection_ms": round(self._collection * 1000, 3),
            "young": gc.get_count(),
        }
        unfinished = self._file.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(found))
        unfinished.replace(self._file)
        self._reset()


def main() -> int:
    file = Path(sys.argv[1])

    def watch(running: Running) -> None:
        del running
        TurnWatch(asyncio.get_running_loop(), file)

    configuration = ServerConfiguration(
        hosts=(HOST,), port=0, http=HttpConfiguration(port=0, is_port_named=True)
    )
    return serve(configuration, when_started=watch)


if __name__ == "__main__":
    sys.exit(main())
