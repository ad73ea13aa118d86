"""Starting a broker: a node, its world, its listeners; and stopping it."""

from __future__ import annotations

import asyncio
import gc
import os
import platform
import resource
import signal
import sys
from dataclasses import dataclass, field
from typing import Final

import structlog
import uvloop

import penstock
from penstock.builds import build_mode
from penstock.node.configuration import CONNECTIONS_MAX, NodeConfiguration
from penstock.node.node import Node
from penstock.server.logins import ThreadedLoginChecker
from penstock.server.memory import MemoryWatcher, can_watch, default_limit_bytes
from penstock.server.server import Server
from penstock.server.world.clock import MachineClock
from penstock.server.world.entropy import MachineEntropy
from penstock.wire.amqp091.limits import Limits

log = structlog.get_logger()

# Collections are rare: messages and entries cannot be part of a cycle and are freed by count, so a
# collection only ever walks over a backlog in vain.
GC_THRESHOLDS: Final = (200_000, 50, 50)


@dataclass(frozen=True, slots=True)
class ServerConfiguration:
    """What `penstock serve` was told. Defaults are meant to serve as they are."""

    host: str = "127.0.0.1"
    port: int = 5672
    name: str = ""
    limits: Limits = field(default_factory=Limits)
    connections_max: int = CONNECTIONS_MAX
    memory_bytes_max: int = 0  # 0 is a share of the machine's


class Running:
    """A started broker. Held by `serve` and by the in-process broker."""

    def __init__(
        self, node: Node, server: Server, logins: ThreadedLoginChecker, address: tuple[str, int]
    ) -> None:
        self.node = node
        self.server = server
        self.address = address
        self._logins = logins

    async def stop(self) -> None:
        await self.server.stop()
        self._logins.close()


async def start(configuration: ServerConfiguration) -> Running:
    """Build a node on the real world and let it listen."""
    clock = MachineClock()
    logins = ThreadedLoginChecker()
    node = Node(
        NodeConfiguration(
            penstock.__version__,
            f"Python {platform.python_version()} ({build_mode()})",
            configuration.name or f"penstock@{platform.node()}",
            configuration.limits,
            configuration.connections_max,
        ),
        MachineEntropy(),
        logins,
        clock.now(),
        clock.wall(),
    )
    server = Server(node, clock)
    logins.attach(server)
    if can_watch():
        limit = configuration.memory_bytes_max or default_limit_bytes()
        server.watchers.append(MemoryWatcher(node, limit))
    address = await server.listen(configuration.host, configuration.port)
    return Running(node, server, logins, address)


def serve(configuration: ServerConfiguration) -> None:
    """Run a broker until SIGTERM or SIGINT; says on one line when it is ready."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    raise_open_files_limit()
    gc.set_threshold(*GC_THRESHOLDS)
    uvloop.run(_serve(configuration))


async def _serve(configuration: ServerConfiguration) -> None:
    running = await start(configuration)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    host, port = running.address
    gc.freeze()
    shown = f"[{host}]" if ":" in host else host
    sys.stdout.write(f"penstock ready amqp={shown}:{port} pid={os.getpid()}\n")
    sys.stdout.flush()
    log.info("ready", build=build_mode(), host=host, port=port)
    await stopped.wait()
    log.info("stopping", connections=len(running.node.connections))
    await running.stop()


def raise_open_files_limit() -> None:
    """Every connection is an open file; take as many as the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
