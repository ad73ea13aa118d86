"""What a TLS listener is told. Light to import: every start of a broker reads it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

# The port that is registered for AMQP over TLS.
TLS_PORT: Final = 5671

MinimumVersion = Literal["1.2", "1.3"]
# Whether clients must show a certificate: not asked for, verified if shown, or required.
ClientCertificate = Literal["no", "optional", "required"]
# Which part of a client's certificate names its user.
LoginFrom = Literal["common_name", "distinguished_name"]


@dataclass(frozen=True, slots=True)
class ListenerTls:
    """The files of one TLS listener, AMQP's or HTTP's, and what it accepts."""

    certificate: Path | None = None  # None: without TLS
    key: Path | None = None  # None: in the certificate's file
    # Who signs the certificates of clients; None asks for none.
    client_authorities: Path | None = None
    # Certificates that the authorities have revoked; needs `client_authorities`.
    client_revocations: Path | None = None
    client_certificate: ClientCertificate = "required"
    minimum_version: MinimumVersion = "1.2"
    ciphers: str = ""  # OpenSSL's list for TLS 1.2; empty is Python's choice

    @property
    def is_enabled(self) -> bool:
        return self.certificate is not None


@dataclass(frozen=True, slots=True)
class DialTls:
    """The files for TLS connections that this server opens to others: `[cluster] tls_*`."""

    certificate: Path | None = None  # what it shows to the other server; None: nothing
    key: Path | None = None  # None: in the certificate's file
    authorities: Path | None = None  # who signs the others' certificates; None: the system's
    verifies: bool = True  # False accepts every certificate


@dataclass(frozen=True, slots=True)
class TlsConfiguration(ListenerTls):
    """AMQP over TLS. Held by the server's configuration."""

    port: int = TLS_PORT
    hosts: tuple[str, ...] = ()  # empty is the plain listeners'
    login_from: LoginFrom = "common_name"
    mechanisms: tuple[str, ...] = ()  # SASL mechanisms; empty is the default
