"""Certificate authorities for tests and certificates that they sign, made by the command
`openssl`.
"""

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
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[signed]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
subjectAltName = IP:127.0.0.1,DNS:localhost
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""
# What `openssl ca` wants to know; it alone can date a certificate, and revoke one.
_REGISTRY = """
[ca]
default_ca = registry
[registry]
database = {folder}/{name}.index
crlnumber = {folder}/{name}.crlnumber
rand_serial = yes
default_md = sha256
default_days = 2
default_crl_days = 2
policy = anything
unique_subject = no
[anything]
commonName = supplied
[signed]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
subjectAltName = IP:127.0.0.1,DNS:localhost
authorityKeyIdentifier = keyid
"""
_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True, slots=True)
class Certificate:
    file: Path
    key: Path


def authority(folder: Path, name: str) -> Certificate:
    return _made(folder, name, f"/CN={name}", "authority", [])


def signed_by(signer: Certificate, folder: Path, name: str, subject: str = "") -> Certificate:
    """Good for a server on 127.0.0.1 and localhost, and for a client. The subject is the common
    name alone unless another is given, as `openssl` writes it: "/O=Waterworks/CN=meter".
    """
    signing = ["-CA", str(signer.file), "-CAkey", str(signer.key)]
    return _made(folder, name, subject or f"/CN={name}", "signed", signing)


def expired_by(signer: Certificate, folder: Path, name: str) -> Certificate:
    """One that was valid for a day, years ago."""
    made = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    request = folder / f"{name}.csr"
    _run(
        *("req", "-new", *_NEW_KEY, "-subj", f"/CN={name}"),
        *("-keyout", str(made.key), "-out", str(request)),
    )
    _run(
        *("ca", "-batch", "-notext", "-outdir", str(folder)),
        *_signing(signer, folder),
        *("-extensions", "signed", "-startdate", "20200101000000Z", "-enddate", "20200102000000Z"),
        *("-in", str(request), "-out", str(made.file)),
    )
    return made


def revocations(signer: Certificate, folder: Path, *revoked: Certificate) -> Path:
    """The signer's list of revoked certificates; what it has revoked before stays on it."""
    for certificate in revoked:
        _run("ca", *_signing(signer, folder), "-revoke", str(certificate.file))
    file = folder / f"{signer.file.stem}.crl.pem"
    _run("ca", *_signing(signer, folder), "-gencrl", "-out", str(file))
    return file


def _signing(signer: Certificate, folder: Path) -> list[str]:
    name = signer.file.stem
    configuration = folder / f"{name}.registry.cnf"
    if not configuration.exists():
        configuration.write_text(_REGISTRY.format(folder=folder, name=name), encoding="ascii")
        (folder / f"{name}.index").write_text("", encoding="ascii")
        (folder / f"{name}.crlnumber").write_text("01\n", encoding="ascii")
    return ["-config", str(configuration), "-cert", str(signer.file), "-keyfile", str(signer.key)]


def _made(folder: Path, name: str, subject: str, section: str, signer: list[str]) -> Certificate:
    configuration = folder / "openssl.cnf"
    configuration.write_text(_CONFIGURATION, encoding="ascii")
    made = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    files = ["-keyout", str(made.key), "-out", str(made.file)]
    _run(
        *("req", "-x509", "-config", str(configuration), "-extensions", section),
        *("-subj", subject, *_NEW_KEY, "-days", "2", *signer, *files),
    )
    return made


def _run(*arguments: str) -> None:
    made = subprocess.run(["openssl", *arguments], check=False, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
