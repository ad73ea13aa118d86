"""Authorities of our own and certificates that they sign, made by the command `openssl`."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_CONFIGURATION = """
[req]
distinguished_name = nobody
prompt = no
[nobody]
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign
subjectKeyIdentifier = hash
[signed]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
subjectAltName = IP:127.0.0.1
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""


@dataclass(frozen=True, slots=True)
class Certificate:
    file: Path
    key: Path


def authority(folder: Path, name: str) -> Certificate:
    return _made(folder, name, "authority", [])


def signed_by(signer: Certificate, folder: Path, name: str) -> Certificate:
    """Good for a server on 127.0.0.1 and for a client."""
    return _made(folder, name, "signed", ["-CA", str(signer.file), "-CAkey", str(signer.key)])


def _made(folder: Path, name: str, section: str, signer: list[str]) -> Certificate:
    configuration = folder / "openssl.cnf"
    configuration.write_text(_CONFIGURATION, encoding="ascii")
    made = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    files = ["-keyout", str(made.key), "-out", str(made.file)]
    command = ["openssl", "req", "-x509", "-config", str(configuration), "-extensions", section]
    subprocess.run(
        [*command, "-subj", f"/CN={name}", *kind, *signer, *files], check=True, capture_output=True
    )
    return made
