"""A small HTTP client for the broker's pages: keep-alive, ranges, retries, several addresses.

Every request is idempotent by the broker's own rules (leases and staged rows have names), so a
failed one is repeated, at the next address, until `retry_seconds` are over: the client waits for a
broker that restarts, and a query does not notice. A refused request is never repeated.

A client belongs to one thread. `client_for` returns the one of this thread; Spark's Python workers
are reused between tasks and find their connection open.
"""

from __future__ import annotations

import base64
import http.client
import json
import logging
import os
import ssl
import threading
import time
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import quote, urlencode

from penstock.spark.address import BrokerAccess, HttpAddress, resolve_secret
from penstock.spark.errors import BrokerRefused, BrokerUnreachable, OptionError

log = logging.getLogger(__name__)

# A broker that runs accepts at once; one whose machine is gone never does.
CONNECT_SECONDS: Final = 5.0
# The longest wait for more of an answer. A commit waits for a disk, which is never this slow.
ANSWER_SECONDS: Final = 60.0
# The same for the very first request, which needs no disk: a silent peer is not a broker.
FIRST_ANSWER_SECONDS: Final = 5.0
# Waits after all addresses have failed: doubling up to the ceiling, short beside a restart.
FIRST_WAIT_SECONDS: Final = 0.05
WAIT_SECONDS_MAX: Final = 2.0
# Statuses to retry: the broker is starting, stopping or at its limit of requests.
# A longer wait than this is logged, once for each request.
QUIET_SECONDS: Final = 3.0
# The answer of an AMQP port to other protocols.
_AMQP_GREETING: Final = "AMQP"
_TEMPORARY: Final = frozenset({429, 502, 503, 504})
_JSON: Final = "application/json"
# It sends nothing to a client that it does not trust.
_CLOSED_BY_TLS: Final = (
    " If the broker requires client certificates, it closes connections without a trusted one: "
    "set the options 'tlsCertFile' and 'tlsKeyFile'."
)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class TryAgain(Exception):
    """This attempt failed, but another one may succeed. Never leaves this module."""


class BrokerClient:
    """Talks to one broker, wherever it is at the moment."""

    def __init__(self, access: BrokerAccess) -> None:
        self.access = access
        self._current = 0
        self._connection: http.client.HTTPConnection | None = None
        # Whether the connection has answered before.
        self._is_kept = False
        self._headers = {
            "Authorization": _authorization(access),
            "User-Agent": "penstock-spark",
            "Accept": "*/*",
        }
        self._tls: ssl.SSLContext | None = None

    def path(self, *parts: str | int, **query: object) -> str:
        """The path of a page under /api; each part is quoted on its own."""
        path = "/api/" + "/".join(quote(str(part), safe="") for part in parts)
        return f"{path}?{urlencode(query)}" if query else path

    def get_json(self, path: str) -> Any:
        return self.ask("GET", path).json()

    def send_json(self, method: str, path: str, value: object) -> Any:
        body = json.dumps(value).encode()
        answer = self.ask(method, path, body, {"Content-Type": _JSON})
        return answer.json() if answer.body else None

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Raises `BrokerRefused` or `BrokerUnreachable`."""
        answer: Answer = self.persist(
            path, lambda: self._ask_once(method, path, body, headers or {})
        )
        return answer

    def read_range(self, path: str, start: int, size: int, etag: str) -> bytearray:
        """Bytes of a file that must still match `etag`."""
        octets = bytearray(size)
        with self.open_range(path, start, size, etag) as reading:
            reading.fill(memoryview(octets))
        return octets

    def open_range(self, path: str, start: int, size: int, etag: str) -> RangeReading:
        """The same piece by piece; no other request can be sent before it is closed."""
        return RangeReading(self, path, start, start + size, etag)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._is_kept = False

    def persist(self, path: str, attempt: Any) -> Any:
        """Retry until the time for it is over. Raises `BrokerRefused` or `BrokerUnreachable`."""
        deadline = time.monotonic() + self.access.retry_seconds
        wait = FIRST_WAIT_SECONDS
        failures = 0
        is_quiet_until = time.monotonic() + QUIET_SECONDS
        while True:
            try:
                return attempt()
            except (TryAgain, OSError, http.client.HTTPException) as error:
                was_kept = self._is_kept
                self.close()
                if was_kept and not isinstance(error, TryAgain):
                    # The broker has closed an idle connection: that is not an error.
                    continue
                if isinstance(error, ssl.SSLCertVerificationError):
                    raise _distrusted(self._address(), error) from None
                if isinstance(error, http.client.BadStatusLine) and _is_amqp(error):
                    raise _wrong_port(self._address()) from None
                failures += 1
                self._current = (self._current + 1) % len(self.access.addresses)
                # Each address is tried at least once.
                if time.monotonic() >= deadline and failures >= len(self.access.addresses):
                    raise self._unreachable(path, error) from None
                if time.monotonic() >= is_quiet_until:
                    is_quiet_until = deadline + ANSWER_SECONDS
                    log.warning("%s", self._waiting(error))
                if failures % len(self.access.addresses) == 0:
                    time.sleep(min(wait, max(0.0, deadline - time.monotonic())))
                    wait = min(wait * 2, WAIT_SECONDS_MAX)

    def _ask_once(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> Answer:
        response = self._response(method, path, body, headers)
        octets = response.read()
        self._is_kept = True
        _check(response.status, f"{method} {path}", octets)
        return Answer(response.status, octets)

    def asked_for_range(self, path: str, headers: dict[str, str]) -> http.client.HTTPResponse:
        """The answer, with its body unread; one attempt."""
        response = self._response("GET", path, None, headers)
        if response.status != http.client.PARTIAL_CONTENT:
            _check(response.status, f"GET {path}", response.read())
            raise TryAgain(f"status {response.status} for a range")
        return response

    def was_read(self, response: http.client.HTTPResponse) -> None:
        """Leaves the connection ready for the next request."""
        response.read()
        self._is_kept = True

    def _response(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> http.client.HTTPResponse:
        if self._connection is None:
            self._connection = self._connected()
        self._connection.request(method, path, body, {**self._headers, **headers})
        return self._connection.getresponse()

    def _connected(self) -> http.client.HTTPConnection:
        address = self._address()
        connection: http.client.HTTPConnection
        if address.secure:
            if self._tls is None:
                self._tls = _tls_context(self.access)
            connection = http.client.HTTPSConnection(
                address.host, address.port, timeout=CONNECT_SECONDS, context=self._tls
            )
        else:
            connection = http.client.HTTPConnection(
                address.host, address.port, timeout=CONNECT_SECONDS
            )
        connection.connect()
        is_first = self.access.is_first_contact
        connection.sock.settimeout(FIRST_ANSWER_SECONDS if is_first else ANSWER_SECONDS)
        return connection

    def _address(self) -> HttpAddress:
        return self.access.addresses[self._current]

    def _told(self, path: str, error: Exception) -> str:
        addresses = ", ".join(map(str, self.access.addresses))
        return (
            f"No answer from {addresses} for {path} within {self.access.retry_seconds:g} seconds; "
            f"the last attempt failed with: {str(error) or type(error).__name__}."
        )

    def _waiting(self, error: Exception) -> str:
        addresses = ", ".join(map(str, self.access.addresses))
        return (
            f"No answer from {addresses} yet ({str(error) or type(error).__name__}); retrying "
            f"for {self.access.retry_seconds:g} seconds in total."
        )

    def _unreachable(self, path: str, error: Exception) -> BrokerUnreachable:
        option = "firstContactTimeout" if self.access.is_first_contact else "retryTimeout"
        # This also happens while a broker is stopping; hence it is only a hint.
        closed = self._tls is not None and isinstance(
            error, ConnectionResetError | BrokenPipeError | ssl.SSLEOFError
        )
        return BrokerUnreachable(
            f"{self._told(path, error)} Check that the broker is running and that this is its HTTP "
            f"port, which is 15672 by default. The option '{option}' sets how long "
            "to keep trying." + (_CLOSED_BY_TLS if closed else "")
        )


class RangeReading:
    """A range of a file that is being received. The caller reads it piece by piece and processes
    each piece while the rest waits. Held by the caller; after a failure of the broker it continues
    where it was.
    """

    def __init__(self, client: BrokerClient, path: str, start: int, end: int, etag: str) -> None:
        self._client = client
        self._path = path
        self._next = start
        self._end = end
        self._etag = etag
        self._response: http.client.HTTPResponse | None = None

    def fill(self, octets: memoryview) -> None:
        """Fill a buffer with the next bytes. Raises `BrokerRefused` or `BrokerUnreachable`."""
        assert self._next + len(octets) <= self._end
        self._client.persist(self._path, lambda: self._fill_once(octets))
        self._next += len(octets)
        if self._next == self._end and self._response is not None:
            response, self._response = self._response, None
            self._client.was_read(response)

    def _fill_once(self, octets: memoryview) -> None:
        response, self._response = self._response, None
        if response is None:
            wanted = f"bytes={self._next}-{self._end - 1}"
            headers = {"Range": wanted, "If-Match": f'"{self._etag}"'}
            response = self._client.asked_for_range(self._path, headers)
        at = 0
        while at < len(octets):
            count = response.readinto(octets[at:])
            if count == 0:
                raise TryAgain(f"received {at} of {len(octets)} bytes")
            at += count
        self._response = response

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._response is not None:
            # The rest is not needed any more, and would block the connection.
            self._response = None
            self._client.close()


def _check(status: int, what: str, octets: bytes) -> None:
    if status < 300:
        return
    if status in _TEMPORARY:
        raise TryAgain(f"status {status}")
    try:
        facts = json.loads(octets)
    except ValueError:
        facts = None
    if not isinstance(facts, dict):
        facts = {"reason": octets[:200].decode(errors="replace") or "no reason was given"}
    raise BrokerRefused(status, what, facts)


def _authorization(access: BrokerAccess) -> str:
    user = resolve_secret("user", access.user)
    password = resolve_secret("password", access.password)
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _tls_context(access: BrokerAccess) -> ssl.SSLContext:
    files = access.tls
    try:
        context = ssl.create_default_context(cafile=files.ca_file)
        if files.certificate_file is not None:
            context.load_cert_chain(files.certificate_file, files.key_file)
    except (OSError, ssl.SSLError) as error:
        raise OptionError(
            "tlsCaFile", f"cannot use the TLS files: {error}", "They must be readable PEM files."
        ) from None
    if not files.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _is_amqp(error: http.client.BadStatusLine) -> bool:
    return str(error).strip("'\"").startswith(_AMQP_GREETING)


def _wrong_port(address: HttpAddress) -> OptionError:
    return OptionError(
        "uri",
        f"{address} is an AMQP port",
        "Use the broker's HTTP port, which is 15672 by default.",
    )


def _distrusted(address: HttpAddress, error: ssl.SSLCertVerificationError) -> OptionError:
    return OptionError(
        "tlsCaFile",
        f"the certificate of {address} is not trusted: {error.verify_message}",
        "Set it to the file of the certificate authority that signed it.",
    )


_clients = threading.local()


def client_for(access: BrokerAccess) -> BrokerClient:
    """This thread's client. A forked process does not inherit its parent's sockets."""
    known: dict[tuple[int, BrokerAccess], BrokerClient] | None
    known = getattr(_clients, "known", None)
    if known is None:
        known = _clients.known = {}
    key = (os.getpid(), access)
    client = known.get(key)
    if client is None:
        client = known[key] = BrokerClient(access)
    return client
