"""The address of the broker's HTTP port and the login. Sent to executors.

    http://user:password@host:15672/vhost[,http://other-host:15672/vhost...]

Secrets are kept as references and looked up where they are used, on the driver and on each
executor, so that none is part of a plan, a checkpoint or a pickled task. A password in the address
itself is the exception; it is for trying things out.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from penstock.spark.errors import OptionError

HTTP_PORT: Final = 15_672
DEFAULT_USER: Final = "guest"
# A broker that runs answers within milliseconds; one that was just started within a second or two.
FIRST_CONTACT_SECONDS: Final = 5.0
_FORM: Final = "Use http://HOST:15672/VHOST, the address of the broker's HTTP port."


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """For https addresses. With `ca_file` None the system's certificate authorities are trusted."""

    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    verify: bool = True


@dataclass(frozen=True, slots=True)
class HttpAddress:
    host: str
    port: int
    secure: bool

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class BrokerAccess:
    """One broker, or several with the same data; tried in turn. Held by every reader and writer."""

    addresses: tuple[HttpAddress, ...]
    vhost: str = "/"
    user: str = DEFAULT_USER
    # As given: a value, `env:NAME` or `file:PATH`.
    password: str = DEFAULT_USER
    tls: TlsFiles = TlsFiles()
    retry_seconds: float = 60.0
    first_contact_seconds: float = FIRST_CONTACT_SECONDS
    # The driver's first request: nothing has answered yet, so the address may be wrong.
    is_first_contact: bool = False

    def at_first_contact(self) -> BrokerAccess:
        seconds = min(self.retry_seconds, self.first_contact_seconds)
        return replace(self, retry_seconds=seconds, is_first_contact=True)

    def __repr__(self) -> str:
        """Without the password, because plans are printed."""
        return f"BrokerAccess({', '.join(map(str, self.addresses))}, vhost={self.vhost!r})"


def read_access(
    uri: str,
    user: str | None,
    password: str | None,
    tls: TlsFiles,
    retry_seconds: float,
    first_contact_seconds: float = FIRST_CONTACT_SECONDS,
) -> BrokerAccess:
    """Raises `OptionError`."""
    read = [_read_one(text.strip()) for text in uri.split(",")]
    vhosts = {vhost for _, vhost, _, _ in read}
    if len(vhosts) > 1:
        names = ", ".join(sorted(vhosts))
        raise OptionError("uri", f"the addresses name different virtual hosts ({names})", _FORM)
    logins = {(name, secret) for _, _, name, secret in read if name is not None}
    if len(logins) > 1:
        raise OptionError(
            "uri", "the addresses have different logins", "Use the options 'user' and 'password'."
        )
    written_user, written_password = next(iter(logins), (None, None))
    if written_user is not None and user is not None:
        raise OptionError("user", "the address also contains a login", "Omit one of the two.")
    if tls != TlsFiles() and not any(address.secure for address, *_ in read):
        raise OptionError("uri", "TLS options are set, but no address is https", "Use https://.")
    access = BrokerAccess(
        tuple(address for address, *_ in read),
        read[0][1],
        user or written_user or DEFAULT_USER,
        password or written_password or DEFAULT_USER,
        tls,
        retry_seconds,
        first_contact_seconds,
    )
    resolve_secret("user", access.user)
    resolve_secret("password", access.password)
    return access


def _read_one(text: str) -> tuple[HttpAddress, str, str | None, str | None]:
    shown = text.rpartition("@")[2]
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise OptionError("uri", f"cannot parse {shown!r}: {error}", _FORM) from None
    if parts.scheme in {"amqp", "amqps"}:
        raise OptionError(
            "uri", f"{parts.scheme}://{shown.rpartition('//')[2]} is an AMQP address", _FORM
        )
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise OptionError("uri", f"{shown!r} is not an http or https address", _FORM)
    path = parts.path.removeprefix("/")
    if "/" in path or parts.query or parts.fragment:
        raise OptionError(
            "uri", f"{shown!r} contains more than a virtual host", "Write a '/' in its name as %2F."
        )
    user = None if parts.username is None else unquote(parts.username)
    password = None if parts.password is None else unquote(parts.password)
    address = HttpAddress(parts.hostname, port or HTTP_PORT, parts.scheme == "https")
    return address, unquote(path) or "/", user, password


def resolve_secret(option: str, reference: str) -> str:
    """The value of `env:NAME` or `file:PATH` on this machine; otherwise the text itself."""
    kind, colon, name = reference.partition(":")
    if not colon or kind not in {"env", "file"}:
        return reference
    if kind == "env":
        value = os.environ.get(name)
        if value is None:
            raise OptionError(
                option,
                f"the environment variable {name} is not set",
                f"Set it for the driver and, with spark.executorEnv.{name}, for the executors.",
            )
        return value
    try:
        return Path(name).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise OptionError(
            option,
            f"cannot read the file {name}: {error.strerror or error}",
            "The file must exist on the driver and on every executor.",
        ) from None
