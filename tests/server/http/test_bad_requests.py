"""Requests that nobody should send: each gets a refusal with words, and none reaches the log."""

import json
import os
import re
import socket

import pytest

from penstock import Broker
from tests.server.http.raw_requests import (
    HOST,
    LOGIN,
    answer_to,
    first_answer,
    frame,
    opened,
    port_of,
    request,
    said_until_end,
    websocket_request,
)
from tests.support.served import END_SECONDS, Served

LEASE = b"POST /api/leases/%2F/q"
COMMIT = b"POST /api/sinks/%2F/s/batches/1/commit"
STAGE = b"POST /api/sinks/%2F/s/batches/1/partitions/1/attempts/1"
CHUNKED = b"Transfer-Encoding: chunked\r\n"

# What is sent, the status of the answer, and a word of its reason.
BAD: dict[str, tuple[bytes, int, str]] = {
    "deep array": (request(LEASE, LOGIN, b"[" * 60_000), 400, "nested too deeply"),
    "deep object": (request(LEASE, LOGIN, b'{"a":' * 10_000), 400, "nested too deeply"),
    "deep commit": (
        request(COMMIT, LOGIN, b'{"attempts":' + b"[" * 1_000_000),
        400,
        "nested too deeply",
    ),
    "a large value": (
        request(COMMIT, LOGIN, b'{"attempts":[[' + b"[]," * 100_000 + b"0]]}"),
        400,
        "longer than 262144 characters",
    ),
    "many attempts": (
        request(
            COMMIT,
            LOGIN,
            b'{"attempts":[' + b",".join(b"[%d,1,0]" % n for n in range(66_000)) + b"]}",
        ),
        400,
        "more than 65536 members",
    ),
    "no JSON": (request(LEASE, LOGIN, b"{"), 400, "not valid JSON"),
    "an empty body": (request(LEASE, LOGIN, b""), 400, "not valid JSON"),
    "not a number": (request(LEASE, LOGIN, b'{"owner":"a","number":NaN}'), 400, "NaN is not"),
    "infinity": (
        request(LEASE, LOGIN, b'{"owner":"a","number":-Infinity}'),
        400,
        "is not valid JSON",
    ),
    "digits": (request(LEASE, LOGIN, b'{"owner":"a","number":%b}' % (b"9" * 5000)), 400, "JSON"),
    "a large number": (request(LEASE, LOGIN, b'{"owner":"a","number":1e999}'), 400, "number"),
    "half a pair": (
        request(LEASE, LOGIN, b'{"owner":"\\ud800","number":1}'),
        400,
        "Unicode string",
    ),
    "invalid UTF-8": (request(LEASE, LOGIN, b'{"owner":"\xff","number":1}'), 400, "not valid JSON"),
    "names of no characters": (
        request(b"POST /api/leases/%FF/%FE%80", LOGIN, b'{"owner":"a","number":1}'),
        404,
        "no vhost",
    ),
    "a bad percent": (
        request(b"POST /api/leases/%ZZ/%", LOGIN, b'{"owner":"a","number":1}'),
        404,
        "no vhost",
    ),
    "a negative attempt": (request(COMMIT, LOGIN, b'{"attempts":[[1,-1,1]]}'), 400, "attempts"),
    "a huge attempt": (
        request(COMMIT, LOGIN, b'{"attempts":[[1,1,%b]]}' % (b"9" * 30)),
        400,
        "attempts",
    ),
    "rows that are none": (request(STAGE, LOGIN, os.urandom(1000)), 400, "malformed row block"),
    "a long path": (request(b"GET /" + b"a" * 100_000), 431, "larger than 32768 bytes"),
    "a path of nothing": (request(b"GET /" + b"a" * 20_000), 404, "no resource at /aaa"),
    "many headers": (request(b"GET /", b"a:\r\n" * 60_000), 431, "more than 256 lines"),
    "a long header": (request(b"GET /", b"a: %b\r\n" % (b"x" * 200_000)), 431, "bytes"),
    "chunks of one octet": (
        request(LEASE, LOGIN + CHUNKED) + b"1\r\na\r\n" * 40_000,
        400,
        "smaller than 512 bytes",
    ),
    "a bad chunk": (request(LEASE, LOGIN + CHUNKED) + b"zz\r\n", 400, "illegal chunk header"),
    "a length and chunks": (
        request(LEASE, LOGIN + CHUNKED, b"{}") + b"0\r\n\r\n",
        400,
        "both Content-Length and Transfer-Encoding",
    ),
    "chunks and a length": (
        request(LEASE, LOGIN + b"Content-Length: 2\r\n" + CHUNKED) + b"0\r\n\r\n",
        400,
        "both Content-Length and Transfer-Encoding",
    ),
    "chunks before HTTP/1.1": (
        LEASE + b" HTTP/1.0\r\n" + HOST + LOGIN + CHUNKED + b"\r\n0\r\n\r\n",
        400,
        "not valid before HTTP/1.1",
    ),
    "two origins": (
        request(
            LEASE,
            LOGIN + b"Origin: http://localhost\r\nOrigin: http://evil.example\r\n",
            b'{"owner":"a","number":1}',
        ),
        400,
        "Origin more than once",
    ),
    "two logins": (request(b"GET /api/whoami", LOGIN + LOGIN), 400, "Authorization more than once"),
    "two origins of a WebSocket": (
        websocket_request(headers=b"Origin: http://localhost\r\nOrigin: http://evil.example\r\n"),
        400,
        "Origin more than once",
    ),
    "a number beyond all": (
        request(b"PUT /api/queues/%2F/q", LOGIN, b'{"arguments": {"x-own": 1e400}}'),
        400,
        "is not a finite number",
    ),
    "two lengths": (request(LEASE, b"Content-Length: 7\r\n", b"{}"), 400, "Content-Length"),
    "a negative length": (request(LEASE, b"Content-Length: -7\r\n"), 400, "Content-Length"),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400, "Host"),
    "two hosts": (request(b"GET /", HOST), 400, "Host"),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "request line"),
    "a login of no octets": (
        request(b"GET /metrics", b"Authorization: Basic \xff\xfe\r\n"),
        401,
        "base64",
    ),
    "a WebSocket with a long header": (
        websocket_request(headers=b"X: %b\r\n" % (b"x" * 9000)),
        400,
        "invalid WebSocket request",
    ),
    "a WebSocket with many headers": (
        websocket_request(headers=b"a: b\r\n" * 200),
        400,
        "invalid WebSocket request",
    ),
    "a WebSocket elsewhere": (websocket_request(b"/nowhere"), 404, "no resource at"),
    "a WebSocket of a bad origin": (
        websocket_request(headers=b"Origin: http://[\r\n"),
        403,
        "are not allowed to open WebSockets",
    ),
}

CLOSE = 8
PING = 9
BINARY = 2
TEXT = 1
CONTINUED = 0
BAD_FRAMES: dict[str, bytes] = {
    "unmasked": frame(BINARY, b"x", is_masked=False),
    "unknown kind": frame(3, b"x"),
    "reserved bits": b"\xf2\x80\0\0\0\0",
    "text of no characters": frame(TEXT, b"\xff\xfe"),
    "continued before it began": frame(CONTINUED, b"x"),
    "begun twice": frame(BINARY, b"x", is_last=False) + frame(BINARY, b"y"),
    "long ping": frame(PING, b"x" * 200),
    "short close": frame(CLOSE, b"x"),
    "close with a bad code": frame(CLOSE, b"\x00\x01"),
    "endless fragments": frame(BINARY, b"", is_last=False)
    + frame(CONTINUED, b"", is_last=False) * 10_000,
    "a length that nothing has": b"\x82\xff" + b"\xff" * 8,
    "garbage": b"\xff" * 5000,
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_is_refused_with_words(broker: Broker, name: str) -> None:
    octets, status, word = BAD[name]
    said = answer_to(port_of(broker), octets)
    assert said.startswith(b"HTTP/1.1 %d " % status), said
    body = json.loads(said.partition(b"\r\n\r\n")[2])
    assert body["error"]
    assert word in body["reason"], body


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_bad_frames_end_a_websocket(broker: Broker, name: str) -> None:
    with opened(port_of(broker)) as line:
        line.sendall(websocket_request())
        assert first_answer(line).startswith(b"HTTP/1.1 101 ")
        try:
            line.sendall(BAD_FRAMES[name])
        except ConnectionError:
            # It was cut off before all was sent.
            return
        said_until_end(line)


def test_nothing_of_all_that_reaches_the_log(served: Served) -> None:
    facts = served.ready("--memory")
    port = int(facts["http"].rpartition(":")[2])
    for octets, _, _ in BAD.values():
        answer_to(port, octets)
    for octets in BAD_FRAMES.values():
        # Right behind the request, before it is answered.
        answer_to(port, websocket_request() + octets)
        with opened(port) as line:
            line.sendall(websocket_request())
            first_answer(line)
            try:
                line.sendall(octets)
            except ConnectionError:
                continue
            said_until_end(line)
    for cut in (b"G", b"GET / HTTP/1.1\r\nHo", request(LEASE, LOGIN, b"{" * 1000)[:-999]):
        for _ in range(20):
            with opened(port) as line:
                line.sendall(cut)
    for cut in (websocket_request()[:-1], websocket_request()):
        with opened(port) as line:
            line.sendall(cut)
    # Answered after all of those.
    assert answer_to(port, request(b"GET /")).startswith(b"HTTP/1.1 200 ")
    served.latest.terminate()
    _, errors = served.latest.communicate(timeout=END_SECONDS)
    assert "Traceback" not in errors
    assert "failed" not in errors
    assert len(errors) < 20_000


def test_clients_that_leave_in_the_middle_of_a_body_leave_no_trace(served: Served) -> None:
    facts = served.ready("--memory")
    port = int(facts["http"].rpartition(":")[2])
    for _ in range(20):
        with opened(port) as line:
            line.sendall(request(LEASE, LOGIN + b"Expect: 100-continue\r\n", b"{" * 1000)[:-1000])
            # The server waits for the body now.
            assert line.recv(12) == b"HTTP/1.1 100"
    assert answer_to(port, request(b"GET /")).startswith(b"HTTP/1.1 200 ")
    served.latest.terminate()
    _, errors = served.latest.communicate(timeout=END_SECONDS)
    assert "Traceback" not in errors
    assert "ClientDisconnect" not in errors
    assert len(errors) < 5_000


def _statuses(said: bytes) -> list[bytes]:
    return re.findall(rb"HTTP/1\.1 ([0-9]{3}) ", said)


def test_requests_one_behind_the_other_are_answered_in_order(broker: Broker) -> None:
    with opened(port_of(broker)) as line:
        line.sendall(
            request(b"GET /")
            + request(b"GET /nowhere")
            + request(b"GET /", b"Connection: close\r\n")
        )
        said = said_until_end(line)
    assert _statuses(said) == [b"200", b"404", b"200"]


def test_a_bad_request_behind_a_good_one_does_not_spoil_its_answer(broker: Broker) -> None:
    with opened(port_of(broker)) as line:
        line.sendall(request(b"GET /") + b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 1000 + b"\r\n")
        said = said_until_end(line)
    assert _statuses(said) == [b"200", b"431"]


def test_a_peer_that_sends_pings_and_never_reads_is_cut_off(broker: Broker) -> None:
    """Else the answers would pile up in the broker's memory."""
    flood = frame(PING, b"x" * 125) * 1000
    with opened(port_of(broker)) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.sendall(websocket_request())
        line.recv(20)
        with pytest.raises(ConnectionError):
            line.sendall(flood * 1000)
