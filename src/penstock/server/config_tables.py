"""The tables of the configuration file as the server's configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.server.cluster_settings import ClusterConfiguration
from penstock.server.http.settings import HttpConfiguration
from penstock.server.log_settings import LogConfiguration
from penstock.server.server_configuration import ServerConfiguration
from penstock.server.tls_settings import DialTls, TlsConfiguration
from penstock.wire.amqp091.limits import Limits

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.server.config_model import ClusterTable, ConfigurationFile, TlsTable


def configured(read: ConfigurationFile, folder: Path) -> ServerConfiguration:
    """Relative paths begin at the folder."""
    limits = read.limits
    definitions = read.definitions.file
    return ServerConfiguration(
        hosts=tuple(read.listen.host),
        port=read.listen.port,
        plain=read.listen.plain,
        tls=_tls(read.tls, folder),
        limits=Limits(
            frame_max=limits.frame_bytes,
            channel_max=limits.channels_per_connection,
            heartbeat_seconds=limits.heartbeat_seconds,
            handshake_ms=limits.handshake_seconds * 1000,
            message_bytes_max=limits.message_bytes,
        ),
        connections_max=limits.connections,
        memory_bytes_max=read.memory.publishers_wait_above_bytes,
        data=folder / read.data.directory if read.data.directory else None,
        disk_bytes_min=read.data.publishers_wait_below_bytes,
        ledger=read.data.ledger,
        anonymous=read.login.anonymous,
        mechanisms=tuple(read.listen.mechanisms),
        stores_scram_keys=read.login.scram_keys,
        creates_queues=read.amqp10.create_queues,
        tokens=read.oauth2.configuration(folder),
        # Relative to the configuration file, because a service may be started in any folder.
        definitions=folder / definitions if definitions else None,
        http=_http(read, folder),
        log=LogConfiguration(read.log.level, read.log.format),
        cluster=_cluster(read.cluster, folder),
    )


def _cluster(table: ClusterTable, folder: Path) -> ClusterConfiguration:
    return ClusterConfiguration(
        DialTls(
            folder / table.tls_certificate if table.tls_certificate else None,
            folder / table.tls_key if table.tls_key else None,
            folder / table.tls_ca if table.tls_ca else None,
            table.tls_verify,
        ),
        table.plain_text,
        table.timing_percent,
        table.pause_seconds,
        table.replicate,
    )


def _tls(table: TlsTable, folder: Path) -> TlsConfiguration:
    return TlsConfiguration(
        certificate=folder / table.certificate if table.certificate else None,
        key=folder / table.key if table.key else None,
        client_authorities=folder / table.client_ca if table.client_ca else None,
        client_revocations=folder / table.client_crl if table.client_crl else None,
        client_certificate=table.client_certificate,
        minimum_version=table.minimum_version,
        ciphers=table.ciphers,
        port=table.port,
        hosts=tuple(host for host in table.host if host),
        login_from=table.login_from,
        mechanisms=tuple(table.mechanisms),
    )


def _http(read: ConfigurationFile, folder: Path) -> HttpConfiguration:
    http = read.http
    return HttpConfiguration(
        enabled=http.enabled,
        # An empty text meant "as listen.host" before this could be a list.
        hosts=tuple(host for host in http.host if host),
        port=http.port,
        certificate=folder / http.tls_certificate if http.tls_certificate else None,
        key=folder / http.tls_key if http.tls_key else None,
        client_authorities=folder / http.tls_client_ca if http.tls_client_ca else None,
        client_revocations=folder / http.tls_client_crl if http.tls_client_crl else None,
        minimum_version=http.tls_minimum_version,
        allowed_hosts=tuple(http.allowed_hosts),
        origins=tuple(http.websocket_origins),
        mechanisms=tuple(http.mechanisms),
        is_port_named="port" in http.model_fields_set,
    )
