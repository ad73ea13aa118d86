"""Certificates for one test run, made by the `openssl` command."""

import shutil
import subprocess
from pathlib import Path

import pytest

NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class Authority:
    """One that signs, with the files of what it signed. Held by the tests of a session."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self.certificate = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        extension = "keyUsage=critical,keyCertSign,cRLSign"
        self._make(self.certificate, self._key, name, "-addext", extension)

    def sign(self, subject: str, alternatives: str) -> tuple[Path, Path]:
        """A certificate for these alternative names, and its key."""
        certificate = self._folder / f"{self._name}-{subject}.pem"
        key = certificate.with_suffix(".key")
        self._make(
            certificate,
            key,
            subject,
            *("-CA", str(self.certificate), "-CAkey", str(self._key)),
            *("-addext", f"subjectAltName={alternatives}"),
            *("-addext", "basicConstraints=critical,CA:FALSE"),
        )
        return certificate, key

    def _make(self, certificate: Path, key: Path, subject: str, *options: str) -> None:
        command = ["openssl", "req", "-x509", *NEW_KEY, "-days", "2", "-subj", f"/CN={subject}"]
        command += ["-out", str(certificate), "-keyout", str(key), *options]
        made = subprocess.run(command, check=False, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr


def make_authority(folder: Path, name: str) -> Authority:
    if shutil.which("openssl") is None:
        pytest.skip("the command `openssl` is not installed; TLS of the client is not tested")
    return Authority(folder, name)
