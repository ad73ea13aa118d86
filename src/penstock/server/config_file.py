"""The configuration file: TOML, every key optional, every mistake named with its place.

[listen]
host = "localhost"                 # or a list: ["127.0.0.1", "::1"]
port = 5672
plain = true                       # false: only with TLS, see below

[tls]                              # AMQP over TLS, beside the plain port or instead of it
port = 5671
host = []                          # as listen.host
certificate = ""
key = ""                           # empty: in the certificate's file
client_ca = ""                     # who signs client certificates
client_crl = ""                    # certificates that it has revoked
client_certificate = "required"    # with client_ca; or "optional", "no"
login_from = "common_name"         # the user in a client certificate; or "distinguished_name"
minimum_version = "1.2"            # or "1.3"
ciphers = ""                       # OpenSSL's list for TLS 1.2

[limits]
connections = 65536
channels_per_connection = 2047
frame_bytes = 131072
message_bytes = 134217728
heartbeat_seconds = 60
handshake_seconds = 10

[memory]
publishers_wait_above_bytes = 0    # 0 is 40 % of the machine's memory

[amqp10]
anonymous = "loopback"             # or "always", "never"
create_queues = true

[definitions]
file = "definitions.json"          # beside this file, if not absolute

[log]
level = "info"                     # or debug, warning, error
format = "text"                    # or json

[http]
enabled = true
host = []                          # as listen.host
port = 15672                       # any free one beside another AMQP port than 5672
tls_certificate = ""
tls_key = ""
tls_client_ca = ""                 # clients must show a certificate that this one has signed
allowed_hosts = []                 # names in the Host header, beside the broker's own
websocket_origins = []
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from penstock.node.configuration import CONNECTIONS_MAX
from penstock.server.disk_space import FREE_BYTES_MIN
from penstock.server.http.settings import HTTP_PORT, HttpConfiguration
from penstock.server.launch import ServerConfiguration
from penstock.server.listening import LOCALHOST
from penstock.server.log_settings import LogConfiguration
from penstock.server.offered_mechanisms import Anonymous, MechanismName
from penstock.server.tls_settings import (
    TLS_PORT,
    ClientCertificate,
    LoginFrom,
    MinimumVersion,
    TlsConfiguration,
)
from penstock.wire.amqp091.limits import FRAME_MAX_FLOOR, Limits

_DEFAULTS: Final = Limits()
_PORT_MAX: Final = 65_535
# Every one is a page that somebody wrote, or a name that somebody gave.
_ORIGINS_MAX: Final = 1_000
# Every one is an address of this machine.
_HOSTS_MAX: Final = 64
# There are five.
_MECHANISMS_MAX: Final = 5


def _listed(host: object) -> object:
    """One host may stand without brackets."""
    return [host] if isinstance(host, str) else host


_Hosts = Annotated[list[str], BeforeValidator(_listed)]


class ConfigurationError(Exception):
    """The file cannot be used; the text says where and why."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ListenTable(_Table):
    host: _Hosts = Field(default=[LOCALHOST], min_length=1, max_length=_HOSTS_MAX)
    port: int = Field(default=5672, ge=0, le=_PORT_MAX)
    plain: bool = True
    mechanisms: list[MechanismName] = Field(default=[], max_length=_MECHANISMS_MAX)


class TlsTable(_Table):
    port: int = Field(default=TLS_PORT, ge=0, le=_PORT_MAX)
    host: _Hosts = Field(default=[], max_length=_HOSTS_MAX)
    certificate: str = ""
    key: str = ""
    client_ca: str = ""
    client_crl: str = ""
    client_certificate: ClientCertificate = "required"
    login_from: LoginFrom = "common_name"
    minimum_version: MinimumVersion = "1.2"
    ciphers: str = ""
    mechanisms: list[MechanismName] = Field(default=[], max_length=_MECHANISMS_MAX)


class LimitsTable(_Table):
    connections: int = Field(default=CONNECTIONS_MAX, ge=1)
    channels_per_connection: int = Field(default=_DEFAULTS.channel_max, ge=1, le=65_535)
    frame_bytes: int = Field(default=_DEFAULTS.frame_max, ge=FRAME_MAX_FLOOR, le=16 * 1024 * 1024)
    message_bytes: int = Field(default=_DEFAULTS.message_bytes_max, ge=1)
    heartbeat_seconds: int = Field(default=_DEFAULTS.heartbeat_seconds, ge=0, le=65_535)
    handshake_seconds: int = Field(default=_DEFAULTS.handshake_ms // 1000, ge=1, le=3600)


class MemoryTable(_Table):
    publishers_wait_above_bytes: int = Field(default=0, ge=0)


class DataTable(_Table):
    directory: str = ""
    publishers_wait_below_bytes: int = Field(default=FREE_BYTES_MIN, ge=0)
    ledger: bool = False


class LoginTable(_Table):
    anonymous: Anonymous = "loopback"
    scram_keys: bool = True


class Amqp10Table(_Table):
    create_queues: bool = True


class DefinitionsTable(_Table):
    file: str = ""


class LogTable(_Table):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


class HttpTable(_Table):
    enabled: bool = True
    host: _Hosts = Field(default=[], max_length=_HOSTS_MAX)
    port: int = Field(default=HTTP_PORT, ge=0, le=_PORT_MAX)
    tls_certificate: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""
    allowed_hosts: list[str] = Field(default=[], max_length=_ORIGINS_MAX)
    websocket_origins: list[str] = Field(default=[], max_length=_ORIGINS_MAX)
    mechanisms: list[MechanismName] = Field(default=[], max_length=_MECHANISMS_MAX)


class ConfigurationFile(_Table):
    """The whole file."""

    listen: ListenTable = ListenTable()
    tls: TlsTable = TlsTable()
    limits: LimitsTable = LimitsTable()
    memory: MemoryTable = MemoryTable()
    data: DataTable = DataTable()
    login: LoginTable = LoginTable()
    amqp10: Amqp10Table = Amqp10Table()
    definitions: DefinitionsTable = DefinitionsTable()
    log: LogTable = LogTable()
    http: HttpTable = HttpTable()


def read_configuration(path: Path) -> ServerConfiguration:
    """Raises ConfigurationError that lists every error, not only the first."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read the configuration file {path}: {error}") from error
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from error
    try:
        read = ConfigurationFile.model_validate(table)
    except ValidationError as error:
        count = error.error_count()
        lines = [f"{path} has {count} error{'s' if count > 1 else ''}:"]
        for mistake in error.errors():
            place = ".".join(str(part) for part in mistake["loc"])
            lines.append(f"  {place}: {_explained(mistake['type'], mistake['msg'])}")
        raise ConfigurationError("\n".join(lines)) from error
    return _configured(read, path.parent)


def _explained(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "unknown key; see `penstock serve --help` and docs/CONFIGURATION.md"
    return message


def _configured(read: ConfigurationFile, folder: Path) -> ServerConfiguration:
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
        # A service does not know the folder it is started in.
        definitions=folder / definitions if definitions else None,
        http=_http(read, folder),
        log=LogConfiguration(read.log.level, read.log.format),
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
        # An empty text was the way to say "as listen.host" before it could be a list.
        hosts=tuple(host for host in http.host if host),
        port=http.port,
        certificate=folder / http.tls_certificate if http.tls_certificate else None,
        key=folder / http.tls_key if http.tls_key else None,
        client_authorities=folder / http.tls_client_ca if http.tls_client_ca else None,
        allowed_hosts=tuple(http.allowed_hosts),
        origins=tuple(http.websocket_origins),
        mechanisms=tuple(http.mechanisms),
        is_port_named="port" in http.model_fields_set,
    )
