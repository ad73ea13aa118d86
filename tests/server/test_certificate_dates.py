"""The date after which a certificate is not valid."""

import ssl
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock.server.certificate_dates import (
    UnreadableCertificate,
    expirations_in,
    expires_at,
)
from tests.support.identities import Identities, make_identities


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> Identities:
    return make_identities(tmp_path_factory.mktemp("identities"))


def said_by_openssl(file: Path) -> datetime:
    told = subprocess.run(
        ["openssl", "x509", "-in", str(file), "-noout", "-enddate"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    seconds = ssl.cert_time_to_seconds(told.partition("=")[2].strip())
    return datetime.fromtimestamp(seconds, UTC)


def made_for(folder: Path, days: str) -> Path:
    file = folder / f"{days}.pem"
    curve = ("-pkeyopt", "ec_paramgen_curve:prime256v1")
    files = ("-keyout", str(folder / "far.key"), "-out", str(file))
    named = ("-subj", "/CN=far", "-days", days)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", *curve, "-nodes", *named, *files],
        check=True,
        capture_output=True,
    )
    return file


def test_the_date_is_the_one_that_openssl_says(identities: Identities, tmp_path: Path) -> None:
    # The last one is beyond 2050, where certificates write dates in another form.
    for file in (identities.server.file, identities.expired.file, made_for(tmp_path, "20000")):
        assert expirations_in(file) == [said_by_openssl(file)]


def test_every_certificate_of_a_chain_is_read(identities: Identities, tmp_path: Path) -> None:
    chain = tmp_path / "chain.pem"
    broken = f"{ssl.PEM_HEADER}\nMAA=\n{ssl.PEM_FOOTER}\n"
    parts = [identities.expired.file.read_text(), broken, identities.ours.file.read_text()]
    chain.write_text("words before\n" + "".join(parts))
    assert expirations_in(chain) == [
        datetime(2020, 1, 2, tzinfo=UTC),
        None,
        said_by_openssl(identities.ours.file),
    ]


def test_what_is_cut_off_anywhere_is_refused(identities: Identities) -> None:
    whole = ssl.PEM_cert_to_DER_cert(identities.server.file.read_text())
    for end in range(len(whole)):
        with pytest.raises(UnreadableCertificate):
            expires_at(whole[:end])
