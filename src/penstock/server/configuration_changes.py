"""The configuration, read again while the broker runs: what can change does, the log says the rest.

A configuration with a mistake changes nothing at all, and so do certificates that cannot be used
for the listener that they belong to.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import structlog

from penstock.server.descriptors import sockets_below
from penstock.server.memory import default_limit_bytes, flood_bytes
from penstock.server.tls import BadCertificate

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.server.running import Running
    from penstock.server.server_configuration import ServerConfiguration
    from penstock.server.tls_settings import TlsConfiguration

log = structlog.get_logger()

# Every key of the file, and where the server's configuration has its value.
PLACES: Final = {
    "listen.host": "hosts",
    "listen.port": "port",
    "listen.plain": "plain",
    "listen.mechanisms": "mechanisms",
    "tls.port": "tls.port",
    "tls.host": "tls.hosts",
    "tls.certificate": "tls.certificate",
    "tls.key": "tls.key",
    "tls.client_ca": "tls.client_authorities",
    "tls.client_crl": "tls.client_revocations",
    "tls.client_certificate": "tls.client_certificate",
    "tls.login_from": "tls.login_from",
    "tls.minimum_version": "tls.minimum_version",
    "tls.ciphers": "tls.ciphers",
    "tls.mechanisms": "tls.mechanisms",
    "limits.connections": "connections_max",
    "limits.channels_per_connection": "limits.channel_max",
    "limits.frame_bytes": "limits.frame_max",
    "limits.message_bytes": "limits.message_bytes_max",
    "limits.heartbeat_seconds": "limits.heartbeat_seconds",
    "limits.handshake_seconds": "limits.handshake_ms",
    "memory.publishers_wait_above_bytes": "memory_bytes_max",
    "data.directory": "data",
    "data.publishers_wait_below_bytes": "disk_bytes_min",
    "data.ledger": "ledger",
    "login.anonymous": "anonymous",
    "login.scram_keys": "stores_scram_keys",
    "oauth2.resource_server_id": "tokens.resource_server_id",
    "oauth2.issuer": "tokens.issuer",
    "oauth2.jwks_file": "tokens.jwks_file",
    "oauth2.signing_keys": "tokens.signing_keys",
    "oauth2.default_key": "tokens.default_key",
    "oauth2.algorithms": "tokens.algorithms",
    "oauth2.verify_aud": "tokens.verify_aud",
    "oauth2.scope_prefix": "tokens.scope_prefix",
    "oauth2.additional_scopes_key": "tokens.additional_scopes_key",
    "oauth2.preferred_username_claims": "tokens.preferred_username_claims",
    "amqp10.create_queues": "creates_queues",
    "definitions.file": "definitions",
    "log.level": "log.level",
    "log.format": "log.format",
    "http.enabled": "http.enabled",
    "http.host": "http.hosts",
    "http.port": "http.port",
    "http.tls_certificate": "http.certificate",
    "http.tls_key": "http.key",
    "http.tls_client_ca": "http.client_authorities",
    "http.tls_client_crl": "http.client_revocations",
    "http.tls_minimum_version": "http.minimum_version",
    "http.allowed_hosts": "http.allowed_hosts",
    "http.websocket_origins": "http.origins",
    "http.mechanisms": "http.mechanisms",
    "cluster.tls_certificate": "cluster.tls.certificate",
    "cluster.tls_key": "cluster.tls.key",
    "cluster.tls_ca": "cluster.tls.authorities",
    "cluster.tls_verify": "cluster.tls.verifies",
    "cluster.plain_text": "cluster.plain_text",
    "cluster.timing_percent": "cluster.timing_percent",
    "cluster.pause_seconds": "cluster.pause_seconds",
    "cluster.replicate": "cluster.replicate",
}
_AMQP_FILES: Final = (
    "tls.certificate",
    "tls.key",
    "tls.client_ca",
    "tls.client_crl",
    "tls.client_certificate",
    "tls.minimum_version",
    "tls.ciphers",
)
_HTTP_FILES: Final = (
    "http.tls_certificate",
    "http.tls_key",
    "http.tls_client_ca",
    "http.tls_client_crl",
    "http.tls_minimum_version",
)
_CLUSTER_FILES: Final = (
    "cluster.tls_certificate",
    "cluster.tls_key",
    "cluster.tls_ca",
    "cluster.tls_verify",
)
_LIMITS: Final = tuple(key for key in PLACES if key.startswith("limits."))
_TOKENS: Final = tuple(key for key in PLACES if key.startswith("oauth2."))
_LOG: Final = ("log.level", "log.format")
_MEMORY: Final = "memory.publishers_wait_above_bytes"
_DISK: Final = "data.publishers_wait_below_bytes"
# Keys that take effect on SIGHUP.
RELOADED: Final = frozenset(
    {*_AMQP_FILES, *_HTTP_FILES, *_CLUSTER_FILES, *_TOKENS, *_LIMITS, *_LOG, _MEMORY, _DISK}
)


class CannotRead(Exception):
    """The configuration cannot be used; the text lists its mistakes."""


class ConfigurationChanges:
    """Held by `serve`, called on the broker's loop."""

    def __init__(
        self,
        running: Running,
        configuration: ServerConfiguration,
        read_again: Callable[[], ServerConfiguration] | None = None,
    ) -> None:
        """`read_again` raises `CannotRead`; None if there is nothing to read but certificates."""
        self._running = running
        # What is in force.
        self._current = configuration
        self._read_again = read_again

    def reload(self) -> list[str]:
        """Returns what went wrong."""
        try:
            wanted = self._current if self._read_again is None else self._read_again()
        except CannotRead as error:
            log.error("cannot reload the configuration; nothing was changed", reason=str(error))
            return [str(error)]
        changed = [key for key, place in PLACES.items() if self._differs(place, wanted)]
        applied = [key for key in changed if key in RELOADED]
        failures = self._read_files(wanted, applied)
        self._apply(wanted, applied)
        later = [key for key in changed if key not in applied]
        if applied:
            log.info("configuration changed", keys=applied)
        if later:
            log.warning("configuration changes that need a restart", keys=later)
        return failures

    def _differs(self, place: str, wanted: ServerConfiguration) -> bool:
        value = attrgetter(place)
        return bool(value(self._current) != value(wanted))

    def _read_files(self, wanted: ServerConfiguration, applied: list[str]) -> list[str]:
        """Certificates are read again whether or not their names have changed. What cannot take
        effect is taken off the list.
        """
        running = self._running
        tls, http = wanted.tls, wanted.http
        has_tls = running.server.tls is not None and tls.is_enabled
        has_https = running.http is not None and running.http.certificates is not None
        has_https = has_https and http.certificate is not None
        of_amqp, of_http = running.reload_certificates(
            tls if has_tls else None, http.files() if has_https else None
        )
        # A listener cannot begin or end.
        if of_amqp or not has_tls:
            applied[:] = [key for key in applied if key not in _AMQP_FILES]
        else:
            self._current = replace(self._current, tls=_files_of(wanted, self._current))
        if of_http or not has_https:
            applied[:] = [key for key in applied if key not in _HTTP_FILES]
        else:
            files = replace(
                self._current.http,
                certificate=http.certificate,
                key=http.key,
                client_authorities=http.client_authorities,
            )
            self._current = replace(self._current, http=files)
        of_tokens = self._read_tokens(wanted, applied)
        of_cluster = self._read_cluster_files(wanted, applied)
        return [failure for failure in (of_amqp, of_http, of_tokens, of_cluster) if failure]

    def _read_tokens(self, wanted: ServerConfiguration, applied: list[str]) -> str:
        """The keys of tokens are read again, too. Returns why that failed; it goes on with what it had
        then.
        """
        running = self._running
        has_tokens = running.tokens is not None and wanted.tokens.is_enabled
        failure = running.reload_tokens(wanted.tokens) if has_tokens else ""
        # Tokens cannot begin or end to be accepted.
        if failure or not has_tokens:
            applied[:] = [key for key in applied if key not in _TOKENS]
        else:
            self._current = replace(self._current, tokens=wanted.tokens)
        return failure

    def _read_cluster_files(self, wanted: ServerConfiguration, applied: list[str]) -> str:
        """Links that are open keep what they have."""
        dialler = self._running.dialler
        if dialler is not None:
            try:
                dialler.reload(wanted.cluster.tls)
            except BadCertificate as error:
                log.error("cannot reload the certificates of the cluster", reason=str(error))
                applied[:] = [key for key in applied if key not in _CLUSTER_FILES]
                return str(error)
        cluster = replace(self._current.cluster, tls=wanted.cluster.tls)
        self._current = replace(self._current, cluster=cluster)
        return ""

    def _apply(self, wanted: ServerConfiguration, applied: list[str]) -> None:
        running = self._running
        server, node = running.server, running.node
        if any(key in applied for key in _LOG) and server.process_log is not None:
            server.process_log.change(wanted.log)
        if any(key in applied for key in _LIMITS):
            # Connections keep the limits that they began with.
            node.configuration = replace(
                node.configuration,
                limits=wanted.limits,
                connections_max=min(wanted.connections_max, sockets_below()),
            )
            node.amqp091.limits = wanted.limits
        if _MEMORY in applied and running.memory is not None:
            limit = wanted.memory_bytes_max or default_limit_bytes()
            running.memory.set_limit(limit)
            server.memory_bytes_max = limit
            server.flood_bytes = flood_bytes(limit)
        if _DISK in applied and running.disk is not None:
            running.disk.set_limit(wanted.disk_bytes_min)
            server.disk_bytes_min = wanted.disk_bytes_min
        self._current = replace(
            self._current,
            log=wanted.log,
            limits=wanted.limits,
            connections_max=wanted.connections_max,
            memory_bytes_max=wanted.memory_bytes_max,
            disk_bytes_min=wanted.disk_bytes_min,
        )


def _files_of(wanted: ServerConfiguration, current: ServerConfiguration) -> TlsConfiguration:
    """What was read of the wanted TLS, beside what only a restart changes."""
    return replace(
        wanted.tls,
        port=current.tls.port,
        hosts=current.tls.hosts,
        login_from=current.tls.login_from,
        mechanisms=current.tls.mechanisms,
    )
