"""`penstock serve` with HTTP: ports, the ready line, TLS, bad requests, the end."""

import signal
import socket
import ssl
import time
from pathlib import Path

import httpx
import pytest

from penstock.server.http.settings import HTTP_PORT, HttpConfiguration
from tests.server.http.asking import GUEST, STREAM, Pages, problem, serving
from tests.server.opened import pika_connection
from tests.support.certificates import authority, revocations, signed_by
from tests.support.served import Served


def test_the_ready_line_says_where_http_is(served: Served) -> None:
    facts = served.ready()
    assert list(facts)[:3] == ["amqp", "http", "pid"]
    response = httpx.get(f"http://{facts['http']}/health/ready")
    assert response.json() == {"status": "ready"}


def test_many_brokers_beside_one_another_do_not_collide(served: Served) -> None:
    assert len({served.ready()["http"] for _ in range(3)}) == 3


@pytest.mark.parametrize("options", [["--no-http"], ["--config"]])
def test_http_can_be_turned_off(served: Served, options: list[str], tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("[http]\nenabled = false\n")
    facts = served.ready(*options, *([str(file)] if options == ["--config"] else []))
    assert set(facts) - {"amqp_also"} == {"amqp", "pid"}


def test_an_option_turns_on_what_the_file_turned_off(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("[http]\nenabled = false\n")
    assert "http" in served.ready("--config", str(file), "--http-port", "0")


def test_a_taken_port_is_said_with_what_to_do(served: Served) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, errors = served.refused("--port=0", "--http-port", str(port))
    assert code == 1
    assert f"cannot listen on 127.0.0.1:{port} for HTTP" in errors
    for option in ("--http-port N", "--http-port 0", "--no-http"):
        assert option in errors


@pytest.mark.parametrize(
    ("configuration", "amqp_port", "port"),
    [
        (HttpConfiguration(), 5672, HTTP_PORT),
        (HttpConfiguration(), 5673, 0),
        (HttpConfiguration(), 0, 0),
        (HttpConfiguration(port=8080, is_port_named=True), 0, 8080),
    ],
)
def test_the_default_port_goes_with_the_default_amqp_port_alone(
    configuration: HttpConfiguration, amqp_port: int, port: int
) -> None:
    assert configuration.port_beside(amqp_port) == port


def test_a_signal_ends_it_with_requests_under_way(served: Served) -> None:
    facts = served.ready()
    host, _, port = facts["http"].partition(":")
    with socket.create_connection((host, int(port)), 20) as idle, httpx.Client() as client:
        assert client.get(f"http://{facts['http']}/health/live").status_code == 200
        idle.sendall(b"GET / HTTP/1.1\r\n")
        process = served.processes[0]
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert time.monotonic() - began < 10


def test_a_broker_that_nobody_asked_over_http_ends_at_once(served: Served) -> None:
    served.ready()
    process = served.processes[0]
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0


def test_tls_serves_the_same_pages(served: Served, tmp_path: Path) -> None:
    ours = authority(tmp_path, "ours")
    signed_by(ours, tmp_path, "server")
    file = tmp_path / "penstock.toml"
    file.write_text('[http]\ntls_certificate = "server.pem"\ntls_key = "server.key"\n')
    data = tmp_path / "data"
    facts = served.ready("--config", str(file), "--data", str(data))
    channel = pika_connection(f"amqp://{facts['amqp']}").channel()
    channel.queue_declare("s", durable=True, arguments=STREAM)
    channel.confirm_delivery()
    body = bytes(range(256)) * 4096
    channel.basic_publish("", "s", body)
    trusted = ssl.create_default_context(cafile=ours.file)
    with httpx.Client(verify=trusted, base_url=f"https://{facts['http']}", auth=GUEST) as client:
        assert client.get("/health/ready").status_code == 200
        log = client.get("/api/streams/%2F/s/segments/0/log", headers={"Range": "bytes=-1048576"})
        assert log.status_code == 206
        assert log.content == body


def test_only_clients_with_a_certificate_are_served_when_that_was_asked_for(
    served: Served, tmp_path: Path
) -> None:
    ours = authority(tmp_path, "ours")
    client = signed_by(ours, tmp_path, "client")
    stranger = signed_by(authority(tmp_path, "theirs"), tmp_path, "stranger")
    signed_by(ours, tmp_path, "server")
    file = tmp_path / "penstock.toml"
    file.write_text(
        '[http]\ntls_certificate = "server.pem"\ntls_key = "server.key"\n'
        'tls_client_ca = "ours.pem"\n'
    )
    address = f"https://{served.ready('--config', str(file))['http']}/health/ready"
    for shown, is_served in ((client, True), (stranger, False), (None, False)):
        context = ssl.create_default_context(cafile=ours.file)
        if shown is not None:
            context.load_cert_chain(shown.file, shown.key)
        with httpx.Client(verify=context) as asking:
            if is_served:
                assert asking.get(address).status_code == 200
            else:
                with pytest.raises(httpx.TransportError):
                    asking.get(address)


def test_a_revoked_certificate_and_an_old_version_are_refused(
    served: Served, tmp_path: Path
) -> None:
    ours = authority(tmp_path, "ours")
    client = signed_by(ours, tmp_path, "client")
    revoked = signed_by(ours, tmp_path, "revoked")
    signed_by(ours, tmp_path, "server")
    revocations(ours, tmp_path, revoked)
    file = tmp_path / "penstock.toml"
    file.write_text(
        '[http]\ntls_certificate = "server.pem"\ntls_key = "server.key"\n'
        'tls_client_ca = "ours.pem"\ntls_client_crl = "ours.crl.pem"\n'
        'tls_minimum_version = "1.3"\n'
    )
    address = f"https://{served.ready('--config', str(file))['http']}/health/ready"
    for shown, newest, is_served in (
        (client, ssl.TLSVersion.TLSv1_3, True),
        (client, ssl.TLSVersion.TLSv1_2, False),
        (revoked, ssl.TLSVersion.TLSv1_3, False),
    ):
        context = ssl.create_default_context(cafile=ours.file)
        context.maximum_version = newest
        context.load_cert_chain(shown.file, shown.key)
        with httpx.Client(verify=context) as asking:
            if is_served:
                assert asking.get(address).status_code == 200
            else:
                with pytest.raises(httpx.TransportError):
                    asking.get(address)


def test_certificates_of_clients_without_tls_are_refused(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[http]\ntls_client_ca = "ours.pem"\n')
    code, errors = served.refused("--port=0", "--config", str(file))
    assert code == 2
    assert "needs http.tls_certificate" in errors


def test_a_certificate_that_cannot_be_used_is_said(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[http]\ntls_certificate = "nowhere.pem"\n')
    code, errors = served.refused("--port=0", "--config", str(file))
    assert code == 2
    assert "cannot use the certificate" in errors


def test_a_request_that_is_none_is_refused_in_the_same_form() -> None:
    with serving() as broker:
        with socket.create_connection(("127.0.0.1", broker.http_port), 20) as raw:
            raw.sendall(b"AMQP\x00\x00\x09\x01\r\n\r\n")
            said = b""
            while octets := raw.recv(4096):
                said += octets
        assert said.startswith(b"HTTP/1.1 400 ")
        assert b'"error": "bad_request"' in said
        assert b'"what_to_do"' in said


def test_headers_that_are_too_large_are_refused(pages: Pages) -> None:
    path = "/health/live"
    assert pages.ask("GET", path, headers={"X-Long": "x" * 20_000}).status_code == 200
    problem(pages.ask("GET", path, headers={"X-Long": "x" * 40_000}), 431)
