"""Contexts from files: what is wrong with a file is said, and new files take effect."""

import shutil
import socket
import ssl
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.server.tls import BadCertificate, make_context
from penstock.server.tls_settings import ListenerTls, TlsConfiguration
from tests.server.tls_client import HOST, opened, secure, tls_broker
from tests.support.certificates import Certificate, authority, revocations, signed_by
from tests.support.identities import Identities


def refused(files: ListenerTls) -> str:
    with pytest.raises(BadCertificate) as error:
        make_context(files, "AMQP")
    return str(error.value)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    file = tmp_path / "nowhere.pem"
    said = refused(ListenerTls(file))
    assert said == f"cannot use the certificate {file} for AMQP: No such file or directory"


def test_a_file_that_is_not_a_certificate_is_named(identities: Identities, tmp_path: Path) -> None:
    file = tmp_path / "not.pem"
    file.write_text("hello")
    assert f"{file} for AMQP: it is not a PEM file" in refused(ListenerTls(file))
    server = identities.server
    assert f"client_ca {file}" in refused(ListenerTls(server.file, server.key, file))
    with_list = ListenerTls(server.file, server.key, identities.ours.file, file)
    assert f"client_crl {file}" in refused(with_list)


def test_a_key_of_another_certificate_is_refused(identities: Identities) -> None:
    said = refused(ListenerTls(identities.server.file, identities.client.key))
    assert "the private key does not belong to the certificate" in said


def test_an_encrypted_key_is_refused_without_asking(identities: Identities, tmp_path: Path) -> None:
    encrypted = tmp_path / "encrypted.key"
    command = ["openssl", "pkey", "-in", str(identities.server.key), "-out", str(encrypted)]
    subprocess.run([*command, "-aes256", "-passout", "pass:secret"], check=True)
    assert "the key is encrypted" in refused(ListenerTls(identities.server.file, encrypted))


def test_ciphers_that_do_not_exist_are_refused(identities: Identities) -> None:
    files = ListenerTls(identities.server.file, identities.server.key, ciphers="ROT13")
    assert "'ROT13' is not a valid list of ciphers" in refused(files)


def test_a_revocation_list_without_an_authority_is_refused(identities: Identities) -> None:
    files = replace(identities.mutual(), client_authorities=None)
    assert "needs the authority" in refused(files)


def test_a_certificate_whose_authority_has_no_list_is_refused(
    identities: Identities, tmp_path: Path
) -> None:
    """Nobody knows whether it was revoked."""
    other = authority(tmp_path, "other")
    theirs = signed_by(other, tmp_path, "theirs")
    both = tmp_path / "both.pem"
    both.write_bytes(identities.ours.file.read_bytes() + other.file.read_bytes())
    with tls_broker(replace(identities.mutual(), client_authorities=both)) as served:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            secure(identities.context(theirs), served.port).recv(1)
        assert "unable to get certificate CRL" in served.reason()


class Files:
    """The files of a broker, which a test replaces. Held by one test."""

    def __init__(self, folder: Path, identities: Identities) -> None:
        self.folder = folder
        self.tls = TlsConfiguration(
            folder / "cert.pem", folder / "key.pem", identities.ours.file, port=0
        )
        self.put(identities.server)

    def put(self, certificate: Certificate) -> None:
        shutil.copy(certificate.file, self.folder / "cert.pem")
        shutil.copy(certificate.key, self.folder / "key.pem")


def shown_at(port: int, context: ssl.SSLContext) -> bytes:
    """The certificate that the broker shows."""
    with secure(context, port) as secured:
        certificate = secured.getpeercert(binary_form=True)
    assert certificate is not None
    return certificate


def encoded(certificate: Certificate) -> bytes:
    return ssl.PEM_cert_to_DER_cert(certificate.file.read_text("ascii"))


def test_new_handshakes_see_a_new_certificate_and_connections_stay(
    identities: Identities, tmp_path: Path
) -> None:
    files = Files(tmp_path, identities)
    context = identities.context(identities.client)
    renewed = signed_by(identities.ours, tmp_path, "renewed")
    with tls_broker(files.tls) as served:
        connection = opened(context, served.port)
        assert shown_at(served.port, context) == encoded(identities.server)
        files.put(renewed)
        assert served.broker.reload_certificates() == []
        assert shown_at(served.port, context) == encoded(renewed)
        connection.open_channel(2)


def test_a_bad_new_file_leaves_the_old_certificate(identities: Identities, tmp_path: Path) -> None:
    files = Files(tmp_path, identities)
    context = identities.context(identities.client)
    with tls_broker(files.tls) as served:
        shutil.copy(identities.client.file, tmp_path / "cert.pem")
        [failure] = served.broker.reload_certificates()
        assert "the private key does not belong to the certificate" in failure
        assert shown_at(served.port, context) == encoded(identities.server)


def test_a_new_revocation_takes_effect(identities: Identities, tmp_path: Path) -> None:
    ours = authority(tmp_path, "mine")
    client = signed_by(ours, tmp_path, "soon")
    server = signed_by(ours, tmp_path, "broker")
    context = ssl.create_default_context(cafile=ours.file)
    context.load_cert_chain(client.file, client.key)
    # A session that could be resumed would not show its certificate again.
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    tls = TlsConfiguration(server.file, server.key, ours.file, revocations(ours, tmp_path), port=0)
    with tls_broker(tls) as served:
        first = secure(context, served.port)
        session = first.session
        revocations(ours, tmp_path, client)
        assert served.broker.reload_certificates() == []
        with (
            pytest.raises((ssl.SSLError, ConnectionError)),
            socket.create_connection((HOST, served.port), 60) as raw,
        ):
            context.wrap_socket(raw, server_hostname=HOST, session=session).recv(1)
        assert "certificate revoked" in served.reason()
