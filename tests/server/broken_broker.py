"""A broker as a process into which defects are planted by signals.

    python -m tests.server.broken_broker DATA

SIGUSR1 plants one tick that fails, SIGUSR2 one that fails again and again.
"""

import asyncio
import signal
import sys
from pathlib import Path

from penstock.server.http.settings import HttpConfiguration
from penstock.server.launch import serve
from penstock.server.running import Running
from penstock.server.server_configuration import ServerConfiguration
from tests.server.defects import BrokenAnswer

# More ticks than the broker will try.
FOR_EVER = 1_000_000


def plant(running: Running, tick_count: int) -> None:
    BrokenAnswer(running.node, tick_count)
    running.server.schedule_flush()


def listen_for_signals(running: Running) -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, plant, running, 1)
    loop.add_signal_handler(signal.SIGUSR2, plant, running, FOR_EVER)


if __name__ == "__main__":
    configuration = ServerConfiguration(
        port=0, data=Path(sys.argv[1]), http=HttpConfiguration(port=0, is_port_named=True)
    )
    sys.exit(serve(configuration, listen_for_signals))
