"""A body that is too large: ordinary clients get an answer, also those that write all of it before they
read, whether or not they want to keep the connection.
"""

import base64
import http.client
import json
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
import requests

from penstock import Broker
from penstock.server.http.rest_of_body import DROPPED_BYTES_MAX
from penstock.server.http.settings import BODY_BYTES_MAX
from tests.server.http.raw_requests import LOGIN, first_answer, opened, port_of, request
from tests.support.certificates import authority, signed_by
from tests.support.served import Served

PATH: Final = "/api/queues/%2F/q"
# Far more than the buffers of two sockets hold, so a client that is not read cannot write all of it.
SIZE: Final = 30_000_000
GUEST: Final = "Basic " + base64.b64encode(b"guest:guest").decode()
SECONDS: Final = 60
# The status, and the body of the answer.
Answer = tuple[int, bytes]


def by_http_client(broker: Broker) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", broker.http_port, timeout=SECONDS)
    return _asked(connection)


def _asked(connection: http.client.HTTPConnection) -> Answer:
    try:
        connection.request("PUT", PATH, bytes(SIZE), {"Authorization": GUEST})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def by_http_client_in_chunks(broker: Broker) -> Answer:
    """Nothing says beforehand how much there is."""

    def pieces() -> Iterator[bytes]:
        for _ in range(SIZE // 100_000):
            yield bytes(100_000)

    connection = http.client.HTTPConnection("127.0.0.1", broker.http_port, timeout=SECONDS)
    try:
        headers = {"Authorization": GUEST, "Transfer-Encoding": "chunked"}
        connection.request("PUT", PATH, pieces(), headers, encode_chunked=True)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def by_urllib(broker: Broker) -> Answer:
    """It says `Connection: close` with every request."""
    asked = urllib.request.Request(broker.http_url + PATH, bytes(SIZE), method="PUT")
    asked.add_header("Authorization", GUEST)
    return _by_urllib(asked)


def _by_urllib(asked: urllib.request.Request) -> Answer:
    try:
        with urllib.request.urlopen(asked, timeout=SECONDS) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def by_requests(broker: Broker) -> Answer:
    url = broker.http_url + PATH
    answer = requests.put(url, bytes(SIZE), auth=("guest", "guest"), timeout=SECONDS)
    return answer.status_code, answer.content


CLIENTS: Final = [by_http_client, by_http_client_in_chunks, by_urllib, by_requests]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_sends_too_much_is_told_what_the_limit_is(
    broker: Broker, client: Callable[[Broker], Answer]
) -> None:
    status, body = client(broker)
    assert status == 413
    problem = json.loads(body)
    assert f"larger than {BODY_BYTES_MAX} bytes" in problem["reason"]
    assert f"Send at most {BODY_BYTES_MAX} bytes" in problem["what_to_do"]


# Without `Expect` curl sends at once, like the others.
@pytest.mark.parametrize("expectation", ["", "100-continue"])
def test_curl_is_told_what_the_limit_is(broker: Broker, tmp_path: Path, expectation: str) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("there is no curl")
    file = tmp_path / "body"
    file.write_bytes(bytes(SIZE))
    words = [curl, "-sS", "-u", "guest:guest", "-X", "PUT", "-w", " %{http_code}"]
    words += ["-H", f"Expect: {expectation}", "--data-binary", f"@{file}", broker.http_url + PATH]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    body, _, status = done.stdout.rpartition(" ")
    assert status == "413"
    assert f"larger than {BODY_BYTES_MAX} bytes" in json.loads(body)["reason"]


def test_nobody_is_asked_to_send_a_body_that_is_announced_as_too_large(broker: Broker) -> None:
    head = request(b"PUT " + PATH.encode(), LOGIN + b"Expect: 100-continue\r\n", bytes(SIZE))
    with opened(port_of(broker)) as line:
        line.sendall(head[:-SIZE])
        assert first_answer(line).startswith(b"HTTP/1.1 413 ")


def test_a_client_with_tls_is_told_what_the_limit_is(served: Served, tmp_path: Path) -> None:
    ours = authority(tmp_path, "ours")
    signed_by(ours, tmp_path, "server")
    file = tmp_path / "penstock.toml"
    file.write_text('[http]\ntls_certificate = "server.pem"\ntls_key = "server.key"\n')
    host, _, port = served.ready("--config", str(file))["http"].partition(":")
    context = ssl.create_default_context(cafile=ours.file)
    connection = http.client.HTTPSConnection(host, int(port), timeout=SECONDS, context=context)
    status, body = _asked(connection)
    assert (status, json.loads(body)["error"]) == (413, "request_entity_too_large")


def test_a_refused_login_with_a_large_body_is_answered(broker: Broker) -> None:
    """Whatever the answer is that comes before the body was read."""
    asked = urllib.request.Request(broker.http_url + PATH, bytes(SIZE), method="PUT")
    assert _by_urllib(asked)[0] == 401


def test_a_connection_that_shall_stay_serves_the_next_request_after_a_dropped_body(
    broker: Broker,
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", broker.http_port, timeout=SECONDS)
    connection.request("PUT", PATH, bytes(SIZE))
    answer = connection.getresponse()
    assert (answer.status, bool(answer.read())) == (401, True)
    socket_before = connection.sock
    connection.request("GET", "/api/whoami", headers={"Authorization": GUEST})
    assert connection.getresponse().status == 200
    assert connection.sock is socket_before
    connection.close()


def test_a_client_that_never_stops_sending_is_cut_off(broker: Broker) -> None:
    megabyte = bytes(1 << 20)
    head = request(b"PUT " + PATH.encode(), b"Content-Length: %d\r\n" % (1 << 40))
    with opened(port_of(broker)) as line:
        line.sendall(head)
        # It has not said that the connection shall end.
        assert first_answer(line).startswith(b"HTTP/1.1 401 ")
        with pytest.raises(ConnectionError):
            line.sendall(megabyte * (2 * DROPPED_BYTES_MAX >> 20))
