"""Requests for the HTTP side of a real server: any path with any body, often damaged."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from random import Random

from tests.fuzz.judging import Verdict, WrongAnswer
from tests.wire.damage import Recorded, mutate

METHODS = ("GET", "GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "BREW")
NAMES = (
    "%2F",
    "q0",
    "durable",
    "stream",
    "absent",
    "%",
    "%FF",
    "..",
    "a" * 300,
    "0",
    "-1",
    "1e9",
    "99999999999999999999",
    "é",
)
PATHS = (
    "/", "/health/live", "/health/ready", "/metrics", "/metrics/per-queue", "/metrics/per-queue?vhost={}",
    "/api/streams/%2F", "/api/streams/%2F/{}", "/api/streams/{}/{}/offset?timestamp={}",
    "/api/streams/%2F/stream/segments/{}/log", "/api/streams/%2F/stream/segments/{}/index",
    "/api/streams/%2F/stream/cursors/{}", "/api/leases/%2F", "/api/leases/%2F/{}",
    "/api/leases/%2F/{}/{}", "/api/leases/%2F/{}/{}/{}", "/api/leases/%2F/{}/{}/{}/return",
    "/api/sinks/%2F", "/api/sinks/%2F/{}", "/api/sinks/%2F/{}/batches/{}/commit",
    "/api/sinks/%2F/{}/batches/{}/partitions/{}/attempts/{}", "/ws", "/nowhere/{}",
)  # fmt: skip
BODIES = (
    b"", b"{}", b"[]", b"null", b"[" * 2000, b'{"a":' * 500, b"\xff\xfe", b'{"owner": "o", "number": 1}',
    b'{"owner": "o", "number": 1, "messages": 10, "octets": 1000, "expires_ms": 0}',
    b'{"offset": 5}', b'{"offset": -1}', b'{"offset": NaN}', b'{"offset": 1e999}', b'{"offset": "x"}',
    json.dumps({"messages": [{"exchange": "", "routing_key": "q0"}]}).encode(), b"\0" * 100,
)  # fmt: skip
HEADERS = (
    b"Range: bytes=0-10", b"Range: bytes=5-", b"Range: bytes=x", b'If-Match: "x"', b"Expect: 100-continue",
    b"Content-Type: application/json", b"Upgrade: websocket", b"X: " + b"y" * 5000, b"Transfer-Encoding: chunked",
    b"Accept: */*", b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", b"Host: evil",
)  # fmt: skip
GOOD_LOGIN = b"Authorization: Basic " + b64encode(b"guest:guest")

STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")


class Requests:
    """Makes requests. Held by one worker."""

    def __init__(self, random: Random, port: int) -> None:
        self._random = random
        self._host = b"Host: 127.0.0.1:%d" % port

    def next(self) -> tuple[bytes, bool]:
        """A request, and whether it is whole, so that an answer must come."""
        random = self._random
        path = random.choice(PATHS)
        while "{}" in path:
            path = path.replace("{}", random.choice(NAMES), 1)
        body = random.choice(BODIES)
        lines = [
            f"{random.choice(METHODS)} {path} HTTP/1.1".encode(),
            self._host,
            b"Connection: close",
            b"Content-Length: %d" % len(body),
        ]
        if random.random() < 0.8:
            lines.append(GOOD_LOGIN)
        odd = random.choices(HEADERS, k=random.choice((0, 0, 1, 2)))
        lines += odd
        said = b"\r\n".join(lines) + b"\r\n\r\n" + body
        if random.random() < 0.5:
            return said, not odd
        return mutate(random, Recorded(None, said, 0), random.choice(BODIES) or b"x"), False


def judge(reply: bytes, is_whole: bool, verdict: Verdict) -> None:
    """Whether there is an answer of HTTP, and none that says the fault is ours."""
    if not reply:
        if is_whole:
            raise WrongAnswer("no answer to a whole request")
        verdict.count("http none")
        return
    found = STATUS.match(reply)
    if found is None:
        raise WrongAnswer(f"not an answer of HTTP: {reply[:80]!r}")
    status = int(found.group(1))
    verdict.count(f"http {status}")
    if status == 500:
        raise WrongAnswer(f"500: {reply[:300]!r}")
