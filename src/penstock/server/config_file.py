"""The configuration file: TOML, every key optional, every mistake named with its place.

The tables below are the one source of it all: what the file and the environment may say, and what
docs/CONFIGURATION.md and examples/penstock.toml say about each key (`python -m
tests.test_docs_configuration` writes them). A key marked `reloaded` takes effect on SIGHUP.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from penstock.node.configuration import CONNECTIONS_MAX
from penstock.server.config_environment import variable_of, variables_in
from penstock.server.disk_space import FREE_BYTES_MIN
from penstock.server.http.settings import HTTP_PORT, HttpConfiguration
from penstock.server.listening import LOCALHOST
from penstock.server.log_settings import LogConfiguration
from penstock.server.offered_mechanisms import Anonymous, MechanismName
from penstock.server.server_configuration import ServerConfiguration
from penstock.server.tls_settings import (
    TLS_PORT,
    ClientCertificate,
    LoginFrom,
    MinimumVersion,
    TlsConfiguration,
)
from penstock.wire.amqp091.limits import FRAME_MAX_FLOOR, Limits

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_DEFAULTS: Final = Limits()
_PORT_MAX: Final = 65_535
# Each entry is an origin or a host name that an operator wrote, so there are few.
_ORIGINS_MAX: Final = 1_000
# Each entry is an address of this machine.
_HOSTS_MAX: Final = 64
# There are five.
_MECHANISMS_MAX: Final = 5


def _listed(host: object) -> object:
    """A single host may be given without brackets."""
    return [host] if isinstance(host, str) else host


_Hosts = Annotated[list[str], BeforeValidator(_listed)]


class ConfigurationError(Exception):
    """The file cannot be used; the text says where and why."""


def _key(
    default: object, description: str, *, reloaded: bool = False, path: bool = False, **bounds: Any
) -> Any:
    """A key of a table: its default, what it means, and whether SIGHUP changes it."""
    marks: dict[str, Any] = {"reloaded": reloaded, "path": path}
    return Field(default=default, description=description, json_schema_extra=marks, **bounds)


def _file(description: str, *, reloaded: bool = False) -> Any:
    """A path; in the file, a relative one begins at the file's own directory."""
    return _key("", description, reloaded=reloaded, path=True)


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ListenTable(_Table):
    host: _Hosts = _key(
        [LOCALHOST],
        "address to listen on, or a list of them; `localhost` means 127.0.0.1 and ::1, as `--host`",
        min_length=1,
        max_length=_HOSTS_MAX,
    )
    port: int = _key(
        5672, "AMQP port, on every address; 0 takes a free one, as `--port`", ge=0, le=_PORT_MAX
    )
    plain: bool = _key(True, "`false`: clients must use TLS, as `--no-plain`")
    mechanisms: list[MechanismName] = _key(
        [],
        "the SASL mechanisms that the AMQP port offers, in this order; an empty list means all of "
        "them, `ANONYMOUS` only as `login.anonymous` says. `EXTERNAL` is offered only to clients "
        "that have shown a certificate; see [SECURITY](../SECURITY.md#passwords)",
        max_length=_MECHANISMS_MAX,
    )


class TlsTable(_Table):
    port: int = _key(
        TLS_PORT, "port for AMQP over TLS; 0 takes a free one, as `--tls-port`", ge=0, le=_PORT_MAX
    )
    host: _Hosts = _key(
        [], "where AMQP over TLS listens; empty means `listen.host`", max_length=_HOSTS_MAX
    )
    certificate: str = _file(
        "a PEM file with the broker's certificate, and the intermediate ones if there are any; "
        "enables [TLS](#tls), as `--tls-cert`",
        reloaded=True,
    )
    key: str = _file(
        "a PEM file with the private key, not encrypted; empty: it is in the certificate's file, "
        "as `--tls-key`",
        reloaded=True,
    )
    client_ca: str = _file(
        "a PEM file with the authorities that sign client certificates, as `--tls-client-ca`",
        reloaded=True,
    )
    client_crl: str = _file(
        "a PEM file with the revocation list of every authority that signs client certificates; a "
        "certificate on it is refused, and so is every certificate whose authority has no current "
        "list in it",
        reloaded=True,
    )
    client_certificate: ClientCertificate = _key(
        "required",
        "with `tls.client_ca`: whether a client must show a certificate, may show one, or is not "
        "asked. A certificate that is shown must be valid",
        reloaded=True,
    )
    login_from: LoginFrom = _key(
        "common_name",
        "which part of a client certificate names its user, as RabbitMQ's `ssl_cert_login_from`",
    )
    minimum_version: MinimumVersion = _key(
        "1.2", "the oldest TLS version that is accepted", reloaded=True
    )
    ciphers: str = _key(
        "",
        "OpenSSL's cipher list for TLS 1.2; empty means the defaults of Python",
        reloaded=True,
    )
    mechanisms: list[MechanismName] = _key(
        [],
        "the SASL mechanisms of the TLS port, as `listen.mechanisms`",
        max_length=_MECHANISMS_MAX,
    )


class LimitsTable(_Table):
    connections: int = _key(
        CONNECTIONS_MAX, "further sockets are closed at once", reloaded=True, ge=1
    )
    channels_per_connection: int = _key(
        _DEFAULTS.channel_max, "proposed in `connection.tune`", reloaded=True, ge=1, le=65_535
    )
    frame_bytes: int = _key(
        _DEFAULTS.frame_max,
        "proposed in `connection.tune`",
        reloaded=True,
        ge=FRAME_MAX_FLOOR,
        le=16 * 1024 * 1024,
    )
    message_bytes: int = _key(
        _DEFAULTS.message_bytes_max,
        "a larger body closes the channel with 406",
        reloaded=True,
        ge=1,
    )
    heartbeat_seconds: int = _key(
        _DEFAULTS.heartbeat_seconds,
        "proposed in `connection.tune`; the client decides, 0 means none",
        reloaded=True,
        ge=0,
        le=65_535,
    )
    handshake_seconds: int = _key(
        _DEFAULTS.handshake_ms // 1000,
        "from the first byte to an open connection",
        reloaded=True,
        ge=1,
        le=3600,
    )


class MemoryTable(_Table):
    publishers_wait_above_bytes: int = _key(
        0,
        "the memory alarm: publishers are blocked while more is held for clients; 0 means 40 % of "
        "the machine's memory or of the control group's limit",
        reloaded=True,
        ge=0,
    )


class DataTable(_Table):
    directory: str = _file(
        "the data directory, as `--data`; empty: `~/.local/state/penstock/PORT`, and none if the "
        "port is 0"
    )
    publishers_wait_below_bytes: int = _key(
        FREE_BYTES_MIN,
        "the disk alarm: publishers are blocked while less is free",
        reloaded=True,
        ge=0,
    )
    ledger: bool = _key(
        False,
        "record what happens to every message, as `--ledger`; needs a data directory",
    )


class LoginTable(_Table):
    anonymous: Anonymous = _key(
        "loopback",
        "where clients that name no user are logged in as `guest`: only if the server listens on "
        "loopback addresses only, everywhere, or nowhere; see "
        "[SECURITY](../SECURITY.md#anonymous-clients)",
    )
    scram_keys: bool = _key(
        True,
        "whether the keys of SCRAM-SHA-256 are stored beside the hash when a password is set; "
        "without them the user cannot log in with SCRAM",
    )


class Amqp10Table(_Table):
    create_queues: bool = _key(
        True,
        "whether an AMQP 1.0 client that attaches to a bare name creates the queue if it does not "
        "exist and the user has configure permission",
    )


class DefinitionsTable(_Table):
    file: str = _file(
        "[definitions](DEFINITIONS.md) that are imported at every start, as `--definitions`"
    )


class LogTable(_Table):
    level: Literal["debug", "info", "warning", "error"] = _key(
        "info", "the least severe level that is written, as `--log-level`", reloaded=True
    )
    format: Literal["text", "json"] = _key(
        "text", "how lines are written, as `--log-format`", reloaded=True
    )


class HttpTable(_Table):
    enabled: bool = _key(True, "`false`: no HTTP server, as `--no-http`")
    host: _Hosts = _key([], "where HTTP listens; empty means `listen.host`", max_length=_HOSTS_MAX)
    port: int = _key(
        HTTP_PORT,
        "HTTP port, as `--http-port`; if it is not set and the AMQP port is not 5672, a free one",
        ge=0,
        le=_PORT_MAX,
    )
    tls_certificate: str = _file(
        "a PEM file; if it is set, the port accepts HTTPS only", reloaded=True
    )
    tls_key: str = _file("the private key, if it is in another file", reloaded=True)
    tls_client_ca: str = _file(
        "a PEM file; if it is set, only clients with a certificate that it has signed are served. "
        "They must log in as well",
        reloaded=True,
    )
    tls_client_crl: str = _file(
        "a PEM file with the revocation lists of the authorities in `http.tls_client_ca`; a "
        "certificate on one of them is refused",
        reloaded=True,
    )
    tls_minimum_version: MinimumVersion = _key(
        "1.2", "the oldest TLS version that is accepted", reloaded=True
    )
    allowed_hosts: list[str] = _key(
        [],
        "names that clients may use in the `Host` header, in addition to `localhost`, the "
        'machine\'s own name, `http.host` and every IP address; `"*"` allows all',
        max_length=_ORIGINS_MAX,
    )
    websocket_origins: list[str] = _key(
        [],
        "pages of these origins may open WebSockets and send requests that change something, in "
        "addition to the broker's own pages",
        max_length=_ORIGINS_MAX,
    )
    mechanisms: list[MechanismName] = _key(
        [],
        "the SASL mechanisms over WebSockets, as `listen.mechanisms`",
        max_length=_MECHANISMS_MAX,
    )


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


_NOTHING_SAID: Final = ConfigurationFile()
# What each variable sets: PENSTOCK_LISTEN_PORT is listen.port.
VARIABLES: Final = {
    variable_of(name, key): (name, key)
    for name, keys in _NOTHING_SAID.model_dump().items()
    for key in keys
}


@dataclass(frozen=True, slots=True)
class ReadConfiguration:
    """What the file and the environment say together. Held while a broker starts or reloads."""

    configuration: ServerConfiguration
    tables: ConfigurationFile
    # "table.key" to where its value comes from: the name of a variable, or "file".
    sources: dict[str, str]


def read_configuration(
    path: Path | None, environment: Mapping[str, str] | None = None
) -> ReadConfiguration:
    """The environment overrides the file. Raises ConfigurationError that lists every error, not only
    the first.
    """
    table = {} if path is None else _file_table(path)
    sources = {
        f"{name}.{key}": "file"
        for name, keys in table.items()
        if isinstance(keys, dict)
        for key in keys
    }
    variables = variables_in(environment or {})
    unknown = [variable for variable in variables if variable not in VARIABLES]
    for variable, text in variables.items():
        if variable in unknown:
            continue
        name, key = VARIABLES[variable]
        keys = table.setdefault(name, {})
        if isinstance(keys, dict):
            keys[key] = _value_of(name, key, text)
            sources[f"{name}.{key}"] = variable
    lines = [f"  {variable}: unknown key; see docs/CONFIGURATION.md" for variable in unknown]
    try:
        read = ConfigurationFile.model_validate(table)
    except ValidationError as error:
        for mistake in error.errors():
            place = ".".join(str(part) for part in mistake["loc"])
            at = sources.get(".".join(str(part) for part in mistake["loc"][:2]), "file")
            shown = place if at == "file" else at
            lines.append(f"  {shown}: {_explained(mistake['type'], mistake['msg'])}")
    if lines:
        count = len(lines)
        origin = path or "the environment"
        heading = f"{origin} has {count} error{'s' if count > 1 else ''}:"
        raise ConfigurationError("\n".join([heading, *lines]))
    return ReadConfiguration(
        _configured(read, Path() if path is None else path.parent), read, sources
    )


def _file_table(path: Path) -> dict[str, object]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read the configuration file {path}: {error}") from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from error


def _value_of(table: str, key: str, text: str) -> object:
    """A variable's text as the value that the file would have. What does not fit stays a text, and
    the model says what is wrong with it.
    """
    known: FieldInfo = type(getattr(_NOTHING_SAID, table)).model_fields[key]
    if isinstance(known.default, list):
        return [word.strip() for word in text.split(",") if word.strip()]
    if isinstance(known.default, bool):
        return {"true": True, "false": False}.get(text.lower(), text)
    if isinstance(known.default, int):
        return int(text) if text.isascii() and text.removeprefix("-").isdigit() else text
    if text and isinstance(known.json_schema_extra, dict) and known.json_schema_extra["path"]:
        # Whoever sets a variable means the directory that the process is started in.
        return str(Path(text).absolute())
    return text


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
        # Relative to the configuration file, because a service may be started in any folder.
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
