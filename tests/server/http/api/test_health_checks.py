"""Health checks: what they look at, and how they fail."""

import shutil
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from penstock import Broker
from penstock.server.tls_settings import TlsConfiguration
from tests.server.http.asking import GUEST, Pages
from tests.support.identities import Identities, make_identities


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> Identities:
    return make_identities(tmp_path_factory.mktemp("identities"))


def checked(broker: Broker, context: ssl.SSLContext, within: str) -> tuple[int, dict[str, Any]]:
    url = f"{broker.http_url}/api/health/checks/certificate-expiration/{within}"
    with httpx.Client(verify=context, auth=GUEST, timeout=20) as client:
        answer = client.get(url)
    found = answer.json()
    assert isinstance(found, dict)
    return answer.status_code, found


def test_a_certificate_that_expires_soon_fails_the_check(identities: Identities) -> None:
    context = identities.context(identities.client)
    with Broker(http=True, tls=identities.mutual()) as broker:
        assert checked(broker, context, "1/days") == (200, {"status": "ok"})
        status, found = checked(broker, context, "1/weeks")
        assert status == 503
        assert (found["status"], found["reason"]) == ("failed", "Certificates expiring")
        by_protocol = {row["protocol"]: row for row in found["expired"]}
        assert set(by_protocol) == {"amqp/ssl", "https"}
        row = by_protocol["amqp/ssl"]
        assert (row["interface"], row["port"]) == ("127.0.0.1", broker.tls_port)
        assert row["certfile"] == str(identities.server.file)
        assert row["cacertfile"] == str(identities.ours.file)
        (own,), (of_authority,) = row["certfile_expires_on"], row["cacertfile_expires_on"]
        # Both were made for two days, not long ago.
        for text in (own, of_authority):
            date = datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
            assert timedelta(days=1) < date - datetime.now(UTC) <= timedelta(days=2)
        for unit in ("Months", "years"):
            assert checked(broker, context, f"1/{unit}")[0] == 503


def test_the_check_looks_at_what_is_in_use(identities: Identities, tmp_path: Path) -> None:
    """An expired one that is in the file fails it once the file was read."""
    file, key = tmp_path / "server.pem", tmp_path / "server.key"
    shutil.copy(identities.server.file, file)
    shutil.copy(identities.server.key, key)
    trusting = ssl.create_default_context()
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    with Broker(http=True, tls=TlsConfiguration(file, key, port=0)) as broker:
        shutil.copy(identities.expired.file, file)
        shutil.copy(identities.expired.key, key)
        assert checked(broker, trusting, "0/days")[0] == 200
        assert broker.reload_certificates() == []
        status, found = checked(broker, trusting, "0/days")
        assert status == 503
        assert {row["certfile_expires_on"][0] for row in found["expired"]} == {"2020-01-02 0:00:00"}


def test_a_broker_without_tls_has_nothing_that_expires(pages: Pages) -> None:
    path = "/api/health/checks/certificate-expiration"
    assert pages.facts(f"{path}/9/years") == {"status": "ok"}
    for wrong in ("x/days", "-1/days", "1/hours"):
        assert pages.get(f"{path}/{wrong}").status_code == 400
