"""A broker that runs: its node, its listeners, its storage; and how it stops."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from penstock.node.node import Node
from penstock.server.data_directory import open_data_directory
from penstock.server.descriptors import files_max
from penstock.server.disk_space import DiskWatcher
from penstock.server.event_lines import EventLines
from penstock.server.http.listener import HttpListener
from penstock.server.joining import MemberDialler
from penstock.server.listening import CannotListen, address_of, bound
from penstock.server.logins import ThreadedLoginChecker
from penstock.server.memory import MemoryWatcher
from penstock.server.server import BACKLOG, STOP_SECONDS, Server
from penstock.server.server_configuration import ServerConfiguration
from penstock.server.tls import Certificates, TlsListener, check_tls
from penstock.server.tls_door import TlsDoor
from penstock.server.tls_settings import ListenerTls, TlsConfiguration
from penstock.server.token_loading import token_verifier
from penstock.server.token_settings import TokenConfiguration, TokensUnavailable
from penstock.server.world.clock import MachineClock
from penstock.server.world.disk import MachineDisk
from penstock.server.world.entropy import MachineEntropy

if TYPE_CHECKING:
    from penstock.server.tokens import JwtVerifier

log = structlog.get_logger()


class Running:
    """A started broker. Held by `serve` and by the in-process broker."""

    def __init__(
        self,
        node: Node,
        server: Server,
        logins: ThreadedLoginChecker,
        storage: Storage | None,
    ) -> None:
        self.node = node
        self.server = server
        # Where it listens; all on the same port unless that was not available.
        self.addresses: list[tuple[str, int]] = []
        self.tls_addresses: list[tuple[str, int]] = []
        # None when HTTP is disabled.
        self.http: HttpListener | None = None
        # What watches for the alarms; None where nothing can be watched.
        self.memory: MemoryWatcher | None = None
        self.disk: DiskWatcher | None = None
        # None when tokens are not accepted.
        self.tokens: JwtVerifier | None = None
        # None when events are not written to the log.
        self.events: EventLines | None = None
        # None without a cluster.
        self.dialler: MemberDialler | None = None
        self._logins = logins
        self._storage = storage

    @property
    def address(self) -> tuple[str, int]:
        """The first of them, of those without TLS if there are any."""
        return (self.addresses or self.tls_addresses)[0]

    def listen(self, configuration: ServerConfiguration) -> None:
        """HTTP is bound from now on and served from `start_http` on. Raises `CannotListen`, or
        `BadCertificate`.
        """
        check_tls(configuration.tls, "tls.certificate")
        self.server.login_from = configuration.tls.login_from
        if configuration.tls.is_enabled:
            # Before anybody is let in: who comes in the clear may ask for TLS as well.
            self._listen_with_tls(configuration.tls, configuration.hosts)
        if configuration.plain:
            try:
                sockets = bound(configuration.hosts, configuration.port, BACKLOG)
            except CannotListen as error:
                raise CannotListen(
                    error.address,
                    f"{error.reason}. Choose another port with --port N, or a free one with "
                    "--port 0.",
                ) from error
            self.addresses = [address_of(listening) for listening in sockets]
            self.server.accept_on(sockets)
        if configuration.http.enabled:
            self.server.websocket_mechanisms = configuration.http.mechanisms or None
            self.http = HttpListener(configuration.http, configuration.hosts, configuration.port)
            if self.http.certificates is not None:
                self.server.tls_listeners.append(
                    TlsListener("https", self.http.addresses, self.http.certificates)
                )

    def _listen_with_tls(self, tls: TlsConfiguration, plain_hosts: tuple[str, ...]) -> None:
        certificates = Certificates(tls, "AMQP")
        door = TlsDoor(self.server, certificates)
        try:
            sockets = bound(tls.hosts or plain_hosts, tls.port, BACKLOG)
        except CannotListen as error:
            raise CannotListen(
                f"{error.address} for TLS",
                f"{error.reason}. Choose another port with --tls-port N, or a free one with "
                "--tls-port 0.",
            ) from error
        self.tls_addresses = [address_of(listening) for listening in sockets]
        self.server.tls_listeners.append(TlsListener("amqp/ssl", self.tls_addresses, certificates))
        self.server.tls = door
        self.server.tls_mechanisms = tls.mechanisms or None
        self.server.watchers.append(door.sweep)
        self.server.accept_on(sockets, door.protocol)

    def reload_certificates(
        self, tls: ListenerTls | None = None, http: ListenerTls | None = None
    ) -> tuple[str, str]:
        """Read the files of the TLS listeners again, or others; connections keep what they have.
        Returns why that failed, for AMQP and for HTTP; the listener goes on with what it had then.
        """
        of_amqp, of_http = "", ""
        if self.server.tls is not None:
            of_amqp = self.server.tls.reload(tls)
        if self.http is not None and self.http.certificates is not None:
            of_http = self.http.certificates.reload(http)
        return of_amqp, of_http

    def accept_tokens(self, tokens: TokenConfiguration) -> None:
        """Before anybody is let in. Raises `TokensUnavailable`."""
        self.tokens = token_verifier(tokens)
        self.node.container.token_verifier = self.tokens

    def reload_tokens(self, tokens: TokenConfiguration) -> str:
        """Read the keys of tokens again. Returns why that failed; what there was is kept then."""
        assert self.tokens is not None, "asked only where tokens are accepted"
        try:
            self.tokens.change(tokens)
        except TokensUnavailable as error:
            log.error("cannot reload the keys of tokens", reason=str(error))
            return str(error)
        return ""

    def start_http(self, data: Path | None) -> None:
        if self.http is not None:
            self.http.start(self.server, self._logins, data)

    async def stop(self, answer_seconds: float = STOP_SECONDS) -> None:
        await self.server.stop(answer_seconds)
        if self.http is not None:
            await self.http.stop()
        self._logins.close()
        if self._storage is not None:
            await self.server.note_clean_stop()
            self._storage.close()
        if self.events is not None:
            self.events.end()


class Storage:
    """The data directory and the disk over it. Held by the running broker."""

    def __init__(self, path: Path, clock: MachineClock, entropy: MachineEntropy) -> None:
        self._directory = open_data_directory(path, clock, entropy)
        self.store_id = self._directory.store_id
        loop = asyncio.get_running_loop()
        self.disk = MachineDisk(path, clock, loop, files_max=files_max())

    def close(self) -> None:
        self.disk.close()
        self._directory.close()
