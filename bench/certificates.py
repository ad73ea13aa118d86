"""A certificate for one broker of one run, made by the command `openssl`."""

import subprocess
from pathlib import Path
from typing import NamedTuple


class Certificate(NamedTuple):
    file: Path
    key: Path


def make_certificate(folder: Path, host: str) -> Certificate:
    """It has signed itself, so it is its own authority."""
    made = Certificate(folder / "certificate.pem", folder / "key.pem")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=bench"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-addext", f"subjectAltName=IP:{host}"),
            *("-keyout", str(made.key), "-out", str(made.file)),
        ],
        check=True,
        capture_output=True,
    )
    return made
