"""`amqp://` and `amqps://` addresses, read as RabbitMQ's URI specification says.

    amqp://user:password@host:port/vhost?heartbeat=30&frame_max=65536

Every part is percent-decoded on its own, so `%2F` names the virtual host "/". In one case this is
more lenient than the specification: a path of just "/" means the virtual host "/", as Python's
clients read it, since no broker has a virtual host without a name.

A cluster has several addresses: `amqp://user:password@host1:port1,host2:port2/vhost`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from penstock.client.errors import ClientError, UriInvalid

PLAIN_PORT: Final = 5672
TLS_PORT: Final = 5671

# The defaults of RabbitMQ's clients.
CHANNEL_MAX: Final = 2047
FRAME_SIZE_MAX: Final = 131_072
HEARTBEAT_SECONDS: Final = 60
# Longer than the servers of a cluster without a root hold a client (60 s).
CONNECT_TIMEOUT_MILLISECONDS: Final = 75_000

# Where one of several addresses ends and the next begins.
_BETWEEN: Final = re.compile(r",\s*(?=amqps?://)")

# SASL mechanisms that the client has.
MECHANISMS: Final = ("PLAIN", "AMQPLAIN", "SCRAM-SHA-256", "EXTERNAL", "ANONYMOUS")

# Parameters of other clients that this one ignores; refusing them would only make an address from a
# shared configuration unusable.
IGNORED_PARAMETERS: Final = frozenset(
    {"blocked_connection_timeout", "connection_attempts", "depth"}
    | {"fail_if_no_peer_cert", "locale", "name", "retry_delay", "socket_timeout"}
)


@dataclass(frozen=True, slots=True)
class Tls:
    """How an `amqps` connection is secured: RabbitMQ's query parameters under their own names."""

    cacertfile: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    verify_peer: bool = True
    server_name: str | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """One broker as a client reaches it. Heartbeat 0 switches heartbeats off."""

    host: str = "localhost"
    port: int = PLAIN_PORT
    user: str = "guest"
    password: str = "guest"  # noqa: S105 the default user that works from loopback only
    vhost: str = "/"
    channel_max: int = CHANNEL_MAX
    frame_max: int = FRAME_SIZE_MAX
    heartbeat_seconds: int = HEARTBEAT_SECONDS
    connect_timeout_milliseconds: int = CONNECT_TIMEOUT_MILLISECONDS
    tls: Tls | None = None
    # The SASL mechanism to log in with; empty lets the client choose.
    mechanism: str = ""

    def __str__(self) -> str:
        """For people and logs: without the password."""
        scheme = "amqp" if self.tls is None else "amqps"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{self.user}@{host}:{self.port}/{self.vhost.removeprefix('/')}"


def addresses_of(target: str | Address | Sequence[str | Address]) -> list[Address]:
    """All addresses that were given, in their order; each text may hold several."""
    targets = [target] if isinstance(target, (str, Address)) else list(target)
    found: list[Address] = []
    for entry in targets:
        found += decode_uris(entry) if isinstance(entry, str) else [entry]
    if not found:
        raise ClientError("no address was given")
    return found


def decode_uris(uri: str) -> list[Address]:
    """Addresses of the servers of a cluster: `amqp://user@host:port,host:port/vhost`, or several
    whole addresses separated by commas.
    """
    found: list[Address] = []
    for text in _BETWEEN.split(uri):
        scheme, separator, rest = text.partition("://")
        end = min([at for at in map(rest.find, "/?#") if at >= 0], default=len(rest))
        authority, behind = rest[:end], rest[end:]
        login, at_sign, hosts = authority.rpartition("@")
        for host in hosts.split(","):
            if not host and "," in hosts:
                raise UriInvalid(f"a host is missing in the address {_without_secret(uri)!r}")
            found.append(decode_uri(f"{scheme}{separator}{login}{at_sign}{host}{behind}"))
    return found


def decode_uri(uri: str) -> Address:
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError as error:
        raise UriInvalid(f"cannot read the address {_without_secret(uri)!r}: {error}") from error
    if parts.scheme not in {"amqp", "amqps"}:
        raise UriInvalid(
            f"the address {_without_secret(uri)!r} must begin with amqp:// or amqps://"
        )
    vhost = _decoded(parts.path[1:], "virtual host") or "/"
    if "/" in parts.path[1:]:
        raise UriInvalid(f"the virtual host {parts.path[1:]!r} contains a '/'; write it as %2F")
    secure = parts.scheme == "amqps"
    options = _options(parts.query, secure)
    return Address(
        host=_decoded(parts.hostname or "", "host") or "localhost",
        port=port if port is not None else (TLS_PORT if secure else PLAIN_PORT),
        user=_decoded(parts.username, "user") if parts.username is not None else "guest",
        password=_decoded(parts.password, "password") if parts.password is not None else "guest",
        vhost=vhost,
        channel_max=_number(options, "channel_max", CHANNEL_MAX, 0xFFFF),
        frame_max=_number(options, "frame_max", FRAME_SIZE_MAX, 0xFFFFFFFF),
        heartbeat_seconds=_number(options, "heartbeat", HEARTBEAT_SECONDS, 0xFFFF),
        connect_timeout_milliseconds=_number(
            options, "connection_timeout", CONNECT_TIMEOUT_MILLISECONDS, 0xFFFFFFFF
        ),
        tls=_tls(options) if secure else None,
        mechanism=_mechanism(options),
    )


def _options(query: str, secure: bool) -> dict[str, str]:
    known = {"auth_mechanism", "channel_max", "frame_max", "heartbeat", "connection_timeout"}
    tls_only = {"cacertfile", "certfile", "keyfile", "verify", "server_name_indication"}
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in tls_only and not secure:
            raise UriInvalid(f"the parameter {name!r} needs an amqps:// address")
        if name in known or name in tls_only:
            options[name] = value
        elif name not in IGNORED_PARAMETERS:
            raise UriInvalid(f"unknown parameter {name!r} in the address")
    return options


def _number(options: dict[str, str], name: str, default: int, most: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and int(text) <= most):
        raise UriInvalid(f"the parameter {name!r} must be a number from 0 to {most}, not {text!r}")
    return int(text)


def _mechanism(options: dict[str, str]) -> str:
    """RabbitMQ's clients write it in lower case."""
    name = options.get("auth_mechanism", "").upper()
    if name and name not in MECHANISMS:
        raise UriInvalid(
            f"'auth_mechanism' must be one of {', '.join(MECHANISMS).lower()}, not {name.lower()!r}"
        )
    return name


def _tls(options: dict[str, str]) -> Tls:
    verify = options.get("verify", "verify_peer")
    if verify not in {"verify_peer", "verify_none"}:
        raise UriInvalid(f"'verify' must be verify_peer or verify_none, not {verify!r}")
    return Tls(
        cacertfile=options.get("cacertfile"),
        certfile=options.get("certfile"),
        keyfile=options.get("keyfile"),
        verify_peer=verify == "verify_peer",
        server_name=options.get("server_name_indication"),
    )


def _decoded(text: str, what: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise UriInvalid(
            f"the {what} of the address is not valid UTF-8 after percent-decoding"
        ) from error


def _without_secret(uri: str) -> str:
    """An address fit for an error message; the text before '@' may contain a password."""
    return uri.rpartition("@")[2]
