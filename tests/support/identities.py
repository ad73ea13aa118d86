"""Everybody who comes to a broker with a certificate: friends, strangers and outcasts."""

from __future__ import annotations

import shutil
import ssl
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.server.tls_settings import TlsConfiguration
from tests.support.certificates import Certificate, authority, expired_by, revocations, signed_by


@dataclass(frozen=True, slots=True)
class Identities:
    """Held by the tests of a session; nothing here is changed by them."""

    ours: Certificate
    server: Certificate
    client: Certificate  # common name "meter"
    expired: Certificate
    revoked: Certificate
    foreign: Certificate  # signed by somebody whom the broker does not know
    revocations: Path

    def one_way(self) -> TlsConfiguration:
        """TLS that asks clients for nothing, on a free port."""
        return TlsConfiguration(self.server.file, self.server.key, port=0)

    def mutual(self) -> TlsConfiguration:
        """TLS that asks clients for a certificate that is not revoked."""
        return TlsConfiguration(
            self.server.file, self.server.key, self.ours.file, self.revocations, port=0
        )

    def context(self, shown: Certificate | None = None) -> ssl.SSLContext:
        """Of a client that trusts our authority."""
        context = ssl.create_default_context(cafile=self.ours.file)
        if shown is not None:
            context.load_cert_chain(shown.file, shown.key)
        return context


def make_identities(folder: Path) -> Identities:
    if shutil.which("openssl") is None:
        pytest.skip("the command `openssl` is not installed; TLS is not tested")
    ours = authority(folder, "ours")
    revoked = signed_by(ours, folder, "revoked")
    return Identities(
        ours=ours,
        server=signed_by(ours, folder, "server"),
        client=signed_by(ours, folder, "client", "/O=Waterworks/CN=meter"),
        expired=expired_by(ours, folder, "expired"),
        revoked=revoked,
        foreign=signed_by(authority(folder, "theirs"), folder, "foreign"),
        revocations=revocations(ours, folder, revoked),
    )
