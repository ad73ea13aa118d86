"""TLS for everything that listens: contexts from files, and new files while the broker runs.

A context is made anew when its files are read again. Handshakes that begin afterwards use the new
one; connections keep the one that they began with. Sessions cannot be resumed over a change, so a
certificate that was revoked meanwhile is looked at.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from penstock.server.certificate_dates import expirations_in

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from penstock.server.tls_settings import DialTls, ListenerTls

log = structlog.get_logger()

_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_MODES: Final = {
    "no": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


class BadCertificate(Exception):
    """The TLS configuration cannot be used."""


@dataclass(frozen=True, slots=True)
class CertificateDates:
    """When the certificates of a listener expire that are in use; None where that is not known."""

    file: str
    expirations: list[datetime | None]
    # Of the authority of clients; empty without one.
    authority_file: str
    authority_expirations: list[datetime | None]


class Certificates:
    """The current context of one listener. Held by what listens; `reload` may be called on another
    thread than the one that takes `context`.
    """

    def __init__(self, files: ListenerTls, purpose: str) -> None:
        """`purpose` is for the log: "AMQP", "HTTP". Raises `BadCertificate`."""
        self._files = files
        self._purpose = purpose
        self.context = make_context(files, purpose)
        self.dates = _dates_of(files)

    def reload(self, files: ListenerTls | None = None) -> str:
        """Read the files again, or others. Returns why that failed, in which case nothing has changed, or
        nothing.
        """
        files = files or self._files
        try:
            self.context = make_context(files, self._purpose)
        except BadCertificate as error:
            log.error(
                "cannot reload the certificates; new connections use the previous ones",
                listener=self._purpose,
                reason=str(error),
            )
            return str(error)
        self._files = files
        self.dates = _dates_of(files)
        log.info("certificates reloaded", listener=self._purpose, file=str(files.certificate))
        return ""


@dataclass(frozen=True, slots=True)
class TlsListener:
    """Where somebody listens with certificates. Held by the server, for whoever looks at it."""

    protocol: str  # as RabbitMQ calls it
    addresses: list[tuple[str, int]]
    certificates: Certificates


def check_tls(files: ListenerTls, certificate_key: str) -> None:
    """Raises `BadCertificate` when something is set that needs a certificate, and there is none:
    everybody would get in whom somebody meant to keep out.
    """
    if files.is_enabled:
        return
    if files.key or files.client_authorities or files.client_revocations:
        raise BadCertificate(
            f"a TLS key, client_ca or client_crl needs {certificate_key}, which is not set"
        )


def make_context(files: ListenerTls, purpose: str) -> ssl.SSLContext:
    """Raises `BadCertificate`, whose text names the file."""
    assert files.certificate is not None, "TLS is enabled"
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = _VERSIONS[files.minimum_version]
    # A client could make the broker compute keys again and again.
    context.options |= ssl.OP_NO_RENEGOTIATION
    if files.ciphers:
        try:
            context.set_ciphers(files.ciphers)
        except ssl.SSLError as error:
            raise BadCertificate(
                f"{files.ciphers!r} is not a valid list of ciphers for {purpose}: OpenSSL knows "
                "none of them"
            ) from error
    try:
        context.load_cert_chain(files.certificate, files.key, _no_password)
    except (OSError, ValueError) as error:
        raise _unusable("certificate", files.certificate, purpose, error) from error
    if files.client_authorities is None:
        if files.client_revocations is not None:
            raise BadCertificate(
                f"a list of revoked certificates for {purpose} needs the authority that signs "
                "client certificates (client_ca), which is not set"
            )
        return context
    try:
        context.load_verify_locations(files.client_authorities)
    except (OSError, ValueError) as error:
        raise _unusable("client_ca", files.client_authorities, purpose, error) from error
    context.verify_mode = _MODES[files.client_certificate]
    if files.client_revocations is not None:
        try:
            context.load_verify_locations(files.client_revocations)
        except (OSError, ValueError) as error:
            raise _unusable("client_crl", files.client_revocations, purpose, error) from error
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    # A resumed session would not show its certificate again, which may have expired since.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    return context


def make_dial_context(files: DialTls) -> ssl.SSLContext:
    """For connections that this server opens. Raises `BadCertificate`, whose text names the file."""
    purpose = "the cluster"
    try:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=files.authorities)
    except (OSError, ValueError) as error:
        assert files.authorities is not None, "the system's authorities can always be read"
        raise _unusable("tls_ca", files.authorities, purpose, error) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not files.verifies:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if files.certificate is not None:
        try:
            context.load_cert_chain(files.certificate, files.key, _no_password)
        except (OSError, ValueError) as error:
            raise _unusable("tls_certificate", files.certificate, purpose, error) from error
    return context


def _dates_of(files: ListenerTls) -> CertificateDates:
    """Of files that a context has just been made from."""
    authorities = files.client_authorities
    return CertificateDates(
        str(files.certificate),
        _expirations(files.certificate),
        "" if authorities is None else str(authorities),
        _expirations(authorities),
    )


def _expirations(file: Path | None) -> list[datetime | None]:
    if file is None:
        return []
    try:
        return expirations_in(file)
    except OSError:
        # It has gone since the context was made.
        return [None]


def _no_password() -> str:
    # OpenSSL would ask at the terminal, and the broker would wait for an answer.
    raise ValueError("the key is encrypted; decrypt it (openssl pkey -in KEY -out PLAIN_KEY)")


def _not_pem(said: str) -> str:
    """OpenSSL names the part of itself that could not read the file."""
    if "PEM lib" in said:
        return "it is not a PEM file with a certificate, or the private key is not one"
    return said


def _unusable(kind: str, file: Path, purpose: str, error: Exception) -> BadCertificate:
    reason = str(error)
    if isinstance(error, ssl.SSLError):
        reason = {
            "NO_CERTIFICATE_OR_CRL_FOUND": "it is not a PEM file with certificates",
            "KEY_VALUES_MISMATCH": "the private key does not belong to the certificate",
        }.get(error.reason or "", _not_pem(str(error)))
    elif isinstance(error, OSError) and error.strerror:
        reason = error.strerror
    return BadCertificate(f"cannot use the {kind} {file} for {purpose}: {reason}")
