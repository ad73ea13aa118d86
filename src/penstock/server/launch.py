"""Starting a broker: a node, its world, its listeners."""

from __future__ import annotations

import asyncio
import gc
import os
import platform
import resource
import signal
import sys
from typing import TYPE_CHECKING, Final

import structlog
import uvloop

import penstock
from penstock.broker.store.limits import StoreLimits
from penstock.builds import build_mode, is_pure_by_accident
from penstock.dialects.amqp10.dialect import Amqp10Settings
from penstock.node.configuration import NodeConfiguration
from penstock.node.joining import ClusterPlan
from penstock.node.node import Node
from penstock.server.allocation import keep_freed_memory
from penstock.server.cluster_directory import read_member
from penstock.server.configuration_changes import ConfigurationChanges
from penstock.server.data_directory import NotOurDirectory
from penstock.server.descriptors import limit, sockets_below
from penstock.server.disk_space import DiskWatcher
from penstock.server.event_lines import EventLines
from penstock.server.first_definitions import FirstDefinitions
from penstock.server.joining import MemberDialler, cluster_plan, leave_root
from penstock.server.listening import shown
from penstock.server.log_file import LogFile
from penstock.server.logins import ThreadedLoginChecker
from penstock.server.memory import MemoryWatcher, can_watch, default_limit_bytes, flood_bytes
from penstock.server.offered_mechanisms import offered_mechanisms
from penstock.server.process_log import ProcessLog
from penstock.server.reloading import Reloading
from penstock.server.running import Running, Storage
from penstock.server.server import Server
from penstock.server.server_configuration import ServerConfiguration
from penstock.server.source_dialler import SourceDialler
from penstock.server.systemd import Systemd
from penstock.server.token_settings import amqp10_limits
from penstock.server.world.clock import MachineClock
from penstock.server.world.entropy import MachineEntropy

if TYPE_CHECKING:
    from collections.abc import Callable

log = structlog.get_logger()

# A collection of garbage stops all threads for about 0.07 ms per thousand objects that it looks at,
# which are those that came since the last one and are still there. Compiled messages and entries
# are not among them: they cannot be part of a cycle, and are freed by count. So every other
# collection looks at 5,000 objects, and the one after it at 15,000 or less: about a millisecond. All
# objects are looked at after ten million new ones: that takes long, and hardly ever finds anything.
GC_THRESHOLDS: Final = (5_000, 1, 1_000)
# Exit code when the disk failed while the broker ran.
STORAGE_FAILED: Final = 4
# Exit code when an internal error has prevented two ticks in a row.
BROKEN: Final = 5


async def start(configuration: ServerConfiguration, writes_events: bool = False) -> Running:
    """Build a node on the real world and let it listen; the caller calls `start_http` when it has
    nothing more urgent to do. Connections, logins and the like are logged on request.
    """
    clock = MachineClock()
    events = EventLines(clock) if writes_events else None
    entropy = MachineEntropy()
    logins = ThreadedLoginChecker()
    storage, dialler, plan, first = None, None, None, None
    member = read_member(configuration.data)
    if configuration.data is not None:
        storage = Storage(configuration.data, clock, entropy)
    try:
        if member is not None:
            dialler = MemberDialler()
            if configuration.definitions is not None:
                first = FirstDefinitions(configuration.definitions, configuration.stores_scram_keys)
            plan = cluster_plan(member, configuration.cluster, dialler, first, clock)
        sources = SourceDialler()
        node = _make_node(configuration, clock, entropy, logins, storage, events, plan, sources)
        if first is not None:
            first.node = node
    except Exception:
        if storage is not None:
            storage.close()
        raise
    server = Server(node, clock)
    logins.attach(server)
    if events is not None:
        server.watchers.append(events)
    disk = None
    memory = _watch_memory(server, configuration) if can_watch() else None
    if storage is not None:
        storage.disk.after_answer = server.schedule_flush
        storage.disk.when_it_fails = server.disk_failed
        server.health.flushing_since = storage.disk.flushing_since
        server.disk_bytes_min = configuration.disk_bytes_min
        disk = DiskWatcher(node, storage.disk, configuration.disk_bytes_min)
        server.watchers.append(disk)
    running = Running(node, server, logins, storage)
    running.events, running.dialler = events, dialler
    running.memory, running.disk = memory, disk
    try:
        for watcher in server.watchers:
            # This comes before any client can publish.
            watcher(clock.now())
        running.accept_tokens(configuration.tokens)
        if dialler is not None:
            dialler.attach(server, configuration.cluster)
        sources.attach(server)
        running.listen(configuration)
    except Exception:
        await running.stop()
        raise
    # The first tick arms the timers, those of a member of a cluster among them.
    server.schedule_flush()
    return running


def _watch_memory(server: Server, configuration: ServerConfiguration) -> MemoryWatcher:
    memory_bytes_max = configuration.memory_bytes_max or default_limit_bytes()
    memory = MemoryWatcher(server.node, memory_bytes_max)
    server.watchers.append(memory)
    server.memory_bytes_max = memory_bytes_max
    server.flood_bytes = flood_bytes(memory_bytes_max)
    server.when_flooded = memory
    return memory


def _make_node(
    configuration: ServerConfiguration,
    clock: MachineClock,
    entropy: MachineEntropy,
    logins: ThreadedLoginChecker,
    storage: Storage | None,
    events: EventLines | None,
    plan: ClusterPlan | None,
    sources: SourceDialler,
) -> Node:
    node = Node(
        NodeConfiguration(
            penstock.__version__,
            f"Python {platform.python_version()} ({build_mode()})",
            configuration.name or f"penstock@{platform.node()}",
            configuration.limits,
            min(configuration.connections_max, sockets_below()),
            StoreLimits(store_id=b"" if storage is None else storage.store_id),
            ledger=configuration.ledger,
            makes_scram_keys=configuration.stores_scram_keys,
            mechanisms=offered_mechanisms(
                configuration.mechanisms, configuration.anonymous, _hosts(configuration)
            ),
            amqp10_limits=amqp10_limits(configuration.tokens),
            amqp10=Amqp10Settings(
                creates_queues=configuration.creates_queues,
            ),
        ),
        entropy,
        logins,
        clock.now(),
        clock.wall(),
        None if storage is None else storage.disk,
        events,
        plan,
        sources,
    )
    if node.stored is not None and storage is not None:
        if node.stored.store_id != storage.store_id:
            raise NotOurDirectory(
                f"the journal and the `meta` file in {configuration.data} belong to different data "
                "directories. Restore the files that belong together"
            )
        torn = node.stored.torn_tail
        if torn is not None:
            log.warning(
                "removed a torn tail (an incomplete last write)",
                file=torn.file,
                offset=torn.offset,
            )
        log.info("recovered", messages=node.stored.recovered_count)
    if configuration.definitions is not None and plan is None:
        _import_definitions(node, configuration, clock.now())
    return node


def _hosts(configuration: ServerConfiguration) -> list[str]:
    """All hosts that the server listens on."""
    hosts = list(configuration.hosts)
    if configuration.tls.is_enabled:
        hosts += configuration.tls.hosts
    if configuration.http.enabled:
        hosts += configuration.http.hosts
    return hosts


def _import_definitions(node: Node, configuration: ServerConfiguration, now: int) -> None:
    """Raises `DefinitionsRefused` with everything that is wrong; then nothing was applied."""
    # Imported only when there is a file, because most starts have none.
    from penstock.broker.access.actor import STARTUP, Actor
    from penstock.server.definition_files import import_into, prepare, read_file

    path = configuration.definitions
    assert path is not None, "asked only when there is a file"
    actor = Actor(door=STARTUP)
    prepared = prepare(read_file(path), None, configuration.stores_scram_keys)
    for warning in import_into(node, prepared, now, actor, str(path)):
        log.warning("definitions", file=str(path), note=warning)


def serve(
    configuration: ServerConfiguration,
    when_started: Callable[[Running], None] | None = None,
    read_again: Callable[[], ServerConfiguration] | None = None,
) -> int:
    """Run a broker until SIGTERM or SIGINT; says on one line when it is ready. Returns the exit
    code: 0, STORAGE_FAILED or BROKEN. `when_started` is called on the loop before that line,
    `read_again` on SIGHUP, for the configuration as it is then; it may raise `CannotRead`.
    """
    process_log = ProcessLog(configuration.log, LogFile(sys.stderr.fileno()))
    raise_open_files_limit()
    keep_freed_memory()
    gc.set_threshold(*GC_THRESHOLDS)
    return uvloop.run(_serve(configuration, when_started, read_again, process_log))


async def _serve(
    configuration: ServerConfiguration,
    when_started: Callable[[Running], None] | None,
    read_again: Callable[[], ServerConfiguration] | None,
    process_log: ProcessLog,
) -> int:
    running = await start(configuration, writes_events=True)
    running.server.process_log = process_log
    if when_started is not None:
        when_started(running)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    systemd = Systemd()
    feed = systemd.watcher(running.server.health.stall)
    if feed is not None:
        running.server.watchers.append(feed)
    reloading = Reloading(systemd)
    reloading.add(ConfigurationChanges(running, configuration, read_again).reload)
    loop.add_signal_handler(signal.SIGHUP, reloading.reload)
    gc.freeze()
    connections_max = running.node.configuration.connections_max
    if connections_max < configuration.connections_max:
        log.info(
            "connection limit lowered, because of the limit of open files",
            connections=connections_max,
            configured=configuration.connections_max,
            open_files=limit(),
        )
    sys.stdout.write(ready_line(running))
    sys.stdout.flush()
    addresses = [shown(address) for address in [*running.addresses, *running.tls_addresses]]
    log.info("ready", build=build_mode(), addresses=addresses)
    if is_pure_by_accident():
        log.warning(
            "this is the pure Python build, several times slower than the compiled one; install a "
            "C "
            "compiler and Python's headers, then reinstall Penstock"
        )
    running.start_http(configuration.data)
    running.server.when_storage_fails = stopped.set
    running.server.when_broken = stopped.set
    systemd.ready()
    await stopped.wait()
    systemd.stopping()
    return await _stopped(running)


async def _stopped(running: Running) -> int:
    """End a broker; returns the exit code."""
    if running.server.breakdown:
        # Connections are not closed either: the state in memory may be damaged. The journal is not.
        log.critical(
            "exiting after an internal error; restart the broker to recover all durable data",
            reason=running.server.breakdown,
        )
        return BROKEN
    if running.node.storage_failure:
        # Connections are not closed: nothing may be sent any more that is not durable.
        log.critical("storage failed, stopping", reason=running.node.storage_failure)
        return STORAGE_FAILED
    await leave_root(running.server)
    log.info("stopping", connections=len(running.node.connections))
    await running.stop()
    return 0


def ready_line(running: Running) -> str:
    """Facts as NAME=VALUE. The first address of each kind has a fact of its own, the others one
    together, so that a reader who needs any address reads one word.
    """
    kinds = {}
    if running.addresses:
        kinds["amqp"] = running.addresses
    if running.tls_addresses:
        kinds["amqps"] = running.tls_addresses
    if running.http is not None:
        kinds["http"] = running.http.addresses
    facts = [f"{kind}={shown(addresses[0])}" for kind, addresses in kinds.items()]
    facts.append(f"pid={os.getpid()}")
    for kind, addresses in kinds.items():
        if len(addresses) > 1:
            facts.append(f"{kind}_also={','.join(shown(address) for address in addresses[1:])}")
    return f"penstock ready {' '.join(facts)}\n"


def raise_open_files_limit() -> None:
    """Every connection is an open file; raise the limit as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
