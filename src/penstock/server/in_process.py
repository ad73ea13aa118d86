"""`from penstock import Broker`: the real broker in a thread of its own, on a free port.

    with Broker() as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))

It is the code that `penstock serve` runs; what a test sees here it would see in production. Faults
can be injected: connections dropped, confirms delayed, publishes refused, publishers blocked.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

import uvloop

from penstock.broker.access.actor import IN_PROCESS, Actor
from penstock.broker.access.new_password import NewPasswords
from penstock.broker.state import DEFAULT_VHOST
from penstock.broker.topology import (
    AddVhost,
    BrokerCommand,
    ClearPolicy,
    CloseConnection,
    DeleteUser,
    DeleteVhost,
    PutUser,
    SetPermissions,
    SetPolicy,
)
from penstock.node.configuration import CONNECTIONS_MAX
from penstock.node.durable_answer import DurableAnswer
from penstock.server.faults import FaultyPublishing
from penstock.server.http.settings import HttpConfiguration
from penstock.server.launch import start
from penstock.server.running import Running
from penstock.server.server_configuration import ServerConfiguration
from penstock.server.tls_settings import TlsConfiguration
from penstock.server.world.entropy import MachineEntropy
from penstock.wire.amqp091.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from penstock.broker.topology import Result, VhostCommand
    from penstock.node.node import Node
    from penstock.server.offered_mechanisms import Anonymous

T = TypeVar("T")

# A broker that has not started by then never will. A failure is reported at once; a large data
# directory on a busy machine takes long.
START_SECONDS: Final = 120.0
CALL_SECONDS: Final = 120.0
# The time for clients to close. A blocking client often runs in the same thread that waits here.
ANSWER_SECONDS: Final = 0.25


# Who asks for what is called on a `Broker`.
THE_PROGRAM = Actor(door=IN_PROCESS)


class BrokerFailed(RuntimeError):
    """The broker ended by itself: its disk failed, or it had an internal error twice in a row.
    Where `penstock serve` would exit, this is raised by every later call.
    """


class Broker:
    """A broker inside this process. Start it as a context manager, or with `start` and `stop`."""

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        limits: Limits | None = None,
        connections_max: int = CONNECTIONS_MAX,
        data: str | Path | None = None,
        http: bool = False,
        http_port: int = 0,
        anonymous: Anonymous = "loopback",
        mechanisms: tuple[str, ...] = (),
        create_queues: bool = True,
        tls: TlsConfiguration = TlsConfiguration(),  # noqa: B008 - it is frozen
    ) -> None:
        """`data` names a data directory; without it everything is kept in memory. With
        `http` it also serves HTTP: health, metrics, bulk reads, WebSockets. `mechanisms` are the
        SASL mechanisms that it offers, `anonymous` says who may come without a login, and
        `create_queues` whether an AMQP 1.0 client that attaches to a bare name creates a queue.
        With `tls` it also listens for AMQP over TLS, see `tls_port` (port 0 chooses a free one), and
        HTTP is HTTPS with the same files.
        """
        self._configuration = ServerConfiguration(
            hosts=(host,),
            port=port,
            limits=limits or Limits(),
            connections_max=connections_max,
            data=None if data is None else Path(data),
            http=HttpConfiguration(
                enabled=http,
                port=http_port,
                certificate=tls.certificate,
                key=tls.key,
                client_authorities=tls.client_authorities,
                client_revocations=tls.client_revocations,
                minimum_version=tls.minimum_version,
                is_port_named=True,
            ),
            anonymous=anonymous,
            mechanisms=mechanisms,
            creates_queues=create_queues,
            tls=tls,
        )
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: Running | None = None
        self._stop: asyncio.Event | None = None
        self._faults: FaultyPublishing | None = None
        # Why it ended by itself; empty while it has not.
        self._failure = ""
        self.host = host
        self.port = port
        # 0 without HTTP, and without TLS.
        self.http_port = 0
        self.tls_port = 0

    @property
    def url(self) -> str:
        """For clients: the default user, the default virtual host."""
        return self.url_for()

    def url_for(self, user: str = "guest", password: str = "guest", vhost: str = "/") -> str:  # noqa: S107 - the public default
        path = "%2F" if vhost == "/" else vhost
        return f"amqp://{user}:{password}@{self.host}:{self.port}/{path}"

    @property
    def http_url(self) -> str:
        """Where `http=True` listens."""
        assert self.http_port, "made with http=True, and started"
        scheme = "https" if self._configuration.http.certificate is not None else "http"
        return f"{scheme}://{self.host}:{self.http_port}"

    def start(self) -> Self:
        assert self._thread is None, "started already"
        ready: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(ready,), name="penstock-broker", daemon=True
        )
        self._thread.start()
        ready.result(START_SECONDS)
        return self

    def stop(self) -> None:
        """Close all connections and end the thread. Stopping twice does nothing. Raises
        `BrokerFailed` when it has ended by itself before.
        """
        self._end()
        if self._failure:
            failure, self._failure = self._failure, ""
            raise BrokerFailed(failure)

    def _end(self) -> None:
        thread, loop, stop = self._thread, self._loop, self._stop
        if thread is None or loop is None or stop is None:
            return
        with contextlib.suppress(RuntimeError):
            # Closed, when it has ended by itself.
            loop.call_soon_threadsafe(stop.set)
        thread.join()
        self._thread = None
        self._loop = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc is None:
            self.stop()
        else:
            # The first exception must not be hidden.
            self._end()

    def _run(self, ready: Future[None]) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve(ready))
        except Exception as error:
            # Otherwise the thread would end silently, and every call would wait for its answer.
            self._failure = f"the broker's thread failed: {error!r}"

    async def _serve(self, ready: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        try:
            self._running = await start(self._configuration)
        except Exception as error:
            ready.set_exception(error)
            return
        self.host, self.port = self._running.address
        if self._running.tls_addresses:
            self.tls_port = self._running.tls_addresses[0][1]
        if self._running.http is not None:
            self.http_port = self._running.http.address[1]
            self._running.start_http(self._configuration.data)
        self._faults = FaultyPublishing(self._running.node.timers)
        server = self._running.server
        server.when_storage_fails = self._stop.set
        server.when_broken = self._stop.set
        ready.set_result(None)
        await self._stop.wait()
        self._failure = server.breakdown or self._running.node.storage_failure
        # A broker that has failed sends nothing more to clients, because it may not be durable.
        await self._running.stop(0.0 if self._failure else ANSWER_SECONDS)

    def _call(self, function: Callable[[Node, int], T]) -> T:
        """Run a function on the broker's own thread, the only one that may touch its state."""
        loop, running = self._loop, self._running
        if self._failure:
            raise BrokerFailed(self._failure)
        if loop is None or running is None:
            raise RuntimeError("the broker is not running; use it as a context manager")
        result: Future[T] = Future()

        def run() -> None:
            try:
                result.set_result(function(running.node, running.server.now()))
            except Exception as error:
                result.set_exception(error)
            running.server.schedule_flush()

        try:
            loop.call_soon_threadsafe(run)
            return result.result(CALL_SECONDS)
        except (RuntimeError, TimeoutError):
            if self._failure:
                raise BrokerFailed(self._failure) from None
            raise

    def _change(self, function: Callable[[Node, int], T]) -> T:
        """As `_call`; returns when what was changed would survive a power loss."""
        durable: Future[None] = Future()

        def change(node: Node, now: int) -> T:
            result = function(node, now)
            DurableAnswer(node, lambda: durable.set_result(None))
            return result

        result = self._call(change)
        try:
            durable.result(CALL_SECONDS)
        except TimeoutError:
            if self._failure:
                raise BrokerFailed(self._failure) from None
            raise
        return result

    # Faults on demand.

    def drop_connections(self) -> int:
        """Abort every connection without a close, like a network failure. Returns how many."""

        def drop(node: Node, now: int) -> int:
            del now
            connections = list(node.connections.values())
            for connection in connections:
                connection.outgoing.transport.abort()
            return len(connections)

        return self._call(drop)

    def close_connections(self, reason: str = "closed by the test") -> int:
        """End every connection with connection.close (320), as an operator would."""

        def close(node: Node, now: int) -> int:
            connections = list(node.connections.values())
            for connection in connections:
                connection.stop(reason, now)
            return len(connections)

        return self._call(close)

    def delay_confirms(self, seconds: float) -> None:
        """Delay every publisher's confirm by this long, or for its basic.nack where a publish
        is refused; 0 ends it.
        """

        def delay(faults: FaultyPublishing) -> None:
            faults.confirm_delay_ms = int(seconds * 1000)

        self._change_faults(delay)

    def refuse_publishes(self, count: int = -1) -> None:
        """Refuse the next publishes with basic.nack; -1 refuses all until told otherwise, 0 none."""

        def refuse(faults: FaultyPublishing) -> None:
            faults.refuse_count = count

        self._change_faults(refuse)

    def _change_faults(self, change: Callable[[FaultyPublishing], None]) -> None:
        faults = self._faults

        def apply(node: Node, now: int) -> None:
            del now
            assert faults is not None
            change(faults)
            node.intercept_publishes(faults if faults.is_needed() else None)

        self._call(apply)

    def block_publishers(self, reason: str = "low on memory") -> None:
        """Raise the memory alarm: publishers get connection.blocked and are not read."""
        self._call(lambda node, now: node.set_alarm("test", reason, now))

    def unblock_publishers(self) -> None:
        self._call(lambda node, now: node.set_alarm("test", "", now))

    # Operations of an administrator.

    def apply(
        self, command: BrokerCommand | VhostCommand | CloseConnection, vhost: str | None = None
    ) -> Result:
        """Any change that an operator can ask for, as a value of `penstock.broker.topology`; in the
        virtual host named where the command is for one. Returns when it is durable.
        """

        def change(node: Node, now: int) -> Result:
            if isinstance(command, (BrokerCommand, CloseConnection)):
                return node.apply(command, now, THE_PROGRAM)
            return node.apply_to_vhost(vhost or DEFAULT_VHOST, command, now, THE_PROGRAM)

        return self._change(change)

    def add_vhost(
        self,
        name: str,
        description: str = "",
        tags: tuple[str, ...] = (),
        default_queue_type: str = "",
    ) -> None:
        """Add a virtual host, or describe one anew."""
        self.apply(AddVhost(name, description, tags, default_queue_type))

    def delete_vhost(self, name: str) -> None:
        self.apply(DeleteVhost(name))

    def add_user(self, name: str, password: str, tags: tuple[str, ...] = ()) -> None:
        """Add a user, or give one another password."""
        passwords = NewPasswords(MachineEntropy(), self._configuration.stores_scram_keys)
        password_hash, keys = passwords.secrets_of(password.encode())
        self.apply(PutUser(name, password_hash, tags, scram_keys=keys))

    def delete_user(self, name: str) -> None:
        self.apply(DeleteUser(name))

    def set_permissions(
        self, user: str, vhost: str, configure: str = ".*", write: str = ".*", read: str = ".*"
    ) -> None:
        command = SetPermissions(user, vhost, configure, write, read)
        self.apply(command)

    def set_policy(
        self,
        vhost: str,
        name: str,
        pattern: str,
        definition: dict[str, object],
        priority: int = 0,
        apply_to: str = "all",
    ) -> None:
        command = SetPolicy(name, pattern, definition, apply_to, priority)
        self.apply(command, vhost)

    def clear_policy(self, vhost: str, name: str) -> None:
        self.apply(ClearPolicy(name), vhost)

    def import_definitions(
        self, definitions: dict[str, object] | str | Path, vhost: str | None = None
    ) -> list[str]:
        """Import definitions in RabbitMQ's JSON form, or a file of them; those of one virtual host,
        into the one named. Applied as a whole or refused (`DefinitionsRefused`); returns warnings.
        """
        from penstock.server.definition_files import import_into, prepare, read_file

        whole = definitions if isinstance(definitions, dict) else read_file(Path(definitions))
        prepared = prepare(whole, vhost, self._configuration.stores_scram_keys)
        return self._change(lambda node, now: import_into(node, prepared, now, THE_PROGRAM))

    def export_definitions(self, vhost: str | None = None) -> dict[str, object]:
        """Definitions in RabbitMQ's JSON form: of the whole broker, or of one virtual host."""
        from penstock.server.definition_files import exported

        return self._call(lambda node, now: exported(node, vhost))

    def reload_certificates(self) -> list[str]:
        """Read the files of TLS again, as `penstock serve` does on SIGHUP. Returns what failed."""
        running = self._running
        assert running is not None, "the broker is not running"
        failures = self._call(lambda node, now: running.reload_certificates())
        return [failure for failure in failures if failure]

    # Looking in.

    @property
    def connection_count(self) -> int:
        return self._call(lambda node, now: len(node.connections))

    def queue_depths(self, vhost: str = "/") -> dict[str, int]:
        """Messages ready in each queue."""

        def depths(node: Node, now: int) -> dict[str, int]:
            del now
            queues = node.state.vhost(vhost).queues
            return {name: queue.message_count for name, queue in queues.items()}

        return self._call(depths)
