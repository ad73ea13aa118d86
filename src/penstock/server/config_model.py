"""The tables of the configuration file, which are the one source of it all: what the file and the
environment may say, and what docs/CONFIGURATION.md and examples/penstock.toml say about each key
(`python -m tests.test_docs_configuration` writes them). A key marked `reloaded` takes effect on SIGHUP.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator

from penstock.node.configuration import CONNECTIONS_MAX
from penstock.server.config_keys import Table as _Table
from penstock.server.config_keys import file_key as _file
from penstock.server.config_keys import key as _key
from penstock.server.config_oauth2 import Oauth2Table
from penstock.server.disk_space import FREE_BYTES_MIN
from penstock.server.http.settings import HTTP_PORT
from penstock.server.listening import LOCALHOST
from penstock.server.offered_mechanisms import Anonymous, MechanismName
from penstock.server.tls_settings import (
    TLS_PORT,
    ClientCertificate,
    LoginFrom,
    MinimumVersion,
)
from penstock.wire.amqp091.limits import FRAME_MAX_FLOOR, Limits

_DEFAULTS: Final = Limits()
_PORT_MAX: Final = 65_535
# Each entry is an origin or a host name that an operator wrote, so there are few.
_ORIGINS_MAX: Final = 1_000
# Each entry is an address of this machine.
_HOSTS_MAX: Final = 64
# Below a tenth, one pause of the machine ends a lease; above a hundred times, a failover takes
# minutes. Other values are refused.
_TIMING_PERCENT_MIN: Final = 10
_TIMING_PERCENT_MAX: Final = 10_000
# There are five.
_MECHANISMS_MAX: Final = 5


def _listed(host: object) -> object:
    """A single host may be given without brackets."""
    return [host] if isinstance(host, str) else host


_Hosts = Annotated[list[str], BeforeValidator(_listed)]


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
        CONNECTIONS_MAX,
        "further sockets are closed at once; servers of the cluster have 64 places of their own",
        reloaded=True,
        ge=1,
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
        "from the first byte to an open connection, without the time for which a cluster holds a client",
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


class ClusterTable(_Table):
    tls_certificate: str = _file(
        "a PEM file with the certificate that this server shows to other members of its cluster, and "
        "at its own `amqps://` address if `tls.certificate` is empty",
        reloaded=True,
    )
    tls_key: str = _file("the private key, if it is in another file", reloaded=True)
    tls_ca: str = _file(
        "a PEM file with the authorities that sign the certificates of the other members; empty "
        "means those of the system",
        reloaded=True,
    )
    tls_verify: bool = _key(
        True, "`false`: accept every certificate of another member, for tests only", reloaded=True
    )
    plain_text: bool = _key(
        False,
        "`true`: links to and from members on other machines may do without TLS; what members tell "
        "one another are the messages of their clients",
    )
    timing_percent: int = _key(
        100,
        "all times of the election and of the lease, in percent of their defaults; more for slow "
        "disks or networks. All members must have the same",
        ge=_TIMING_PERCENT_MIN,
        le=_TIMING_PERCENT_MAX,
    )
    pause_seconds: int = _key(
        60,
        "how long clients are held at most while no root is elected. All members must have the same",
        ge=1,
        le=3600,
    )
    replicate: Literal["all", "configuration", "none"] = _key(
        "all",
        "the replication level of queues and exchanges that are declared without one: `all`, "
        "`configuration` or `none`. All members must have the same",
    )


class ConfigurationFile(_Table):
    """The whole file."""

    listen: ListenTable = ListenTable()
    tls: TlsTable = TlsTable()
    limits: LimitsTable = LimitsTable()
    memory: MemoryTable = MemoryTable()
    data: DataTable = DataTable()
    login: LoginTable = LoginTable()
    oauth2: Oauth2Table = Oauth2Table()
    amqp10: Amqp10Table = Amqp10Table()
    definitions: DefinitionsTable = DefinitionsTable()
    log: LogTable = LogTable()
    http: HttpTable = HttpTable()
    cluster: ClusterTable = ClusterTable()
