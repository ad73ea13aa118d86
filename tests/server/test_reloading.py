"""SIGHUP: `penstock serve` reads its certificates again, and nobody is disconnected."""

import shutil
import signal
import ssl
import subprocess
from pathlib import Path

import structlog.testing

from penstock.server.reloading import Reloading
from tests.server.raw_client import wait_for
from tests.server.tls_client import opened, secure
from tests.support.certificates import Certificate, signed_by
from tests.support.identities import Identities
from tests.support.served import launch, ready_facts


def put(certificate: Certificate, folder: Path) -> None:
    shutil.copy(certificate.file, folder / "cert.pem")
    shutil.copy(certificate.key, folder / "key.pem")


def shown_at(port: int, context: ssl.SSLContext) -> bytes:
    with secure(context, port) as secured:
        certificate = secured.getpeercert(binary_form=True)
    assert certificate is not None
    return certificate


def test_sighup_reloads_certificates_and_keeps_connections(
    identities: Identities, tmp_path: Path
) -> None:
    put(identities.server, tmp_path)
    context = identities.context()
    log = tmp_path / "log"
    files = ("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    with log.open("w") as errors:
        process = launch(
            "--port=0", "--host=127.0.0.1", "--no-http", "--tls-port=0", *files, errors=errors
        )
    try:
        port = int(ready_facts(process)["amqps"].rpartition(":")[2])
        connection = opened(context, port)
        before = shown_at(port, context)
        renewed = signed_by(identities.ours, tmp_path, "renewed")
        put(renewed, tmp_path)
        assert shown_at(port, context) == before
        process.send_signal(signal.SIGHUP)
        wait_for(lambda: shown_at(port, context) != before)
        assert "certificates reloaded" in log.read_text()
        (tmp_path / "cert.pem").write_text("spoilt")
        process.send_signal(signal.SIGHUP)
        wait_for(lambda: "cannot reload the certificates" in log.read_text())
        assert shown_at(port, context) == ssl.PEM_cert_to_DER_cert(renewed.file.read_text())
        # Through all of it.
        connection.open_channel(2)
    finally:
        end(process)


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_a_part_that_fails_does_not_keep_others_from_being_reloaded() -> None:
    called: list[str] = []

    def broken() -> list[str]:
        raise RuntimeError("a defect")

    def second() -> list[str]:
        called.append("second")
        return ["its file is missing"]

    reloading = Reloading()
    reloading.add(broken)
    reloading.add(second)
    with structlog.testing.capture_logs() as lines:
        reloading.reload()
    assert called == ["second"]
    assert lines[-1]["log_level"] == "error"
    assert lines[-1]["failures"] == 2
