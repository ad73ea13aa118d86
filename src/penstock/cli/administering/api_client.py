"""Requests to the HTTP API of a running broker, with the standard library alone.

One connection is kept for all requests of a command. Nothing is sent twice: a request whose answer
was lost may have been carried out, and the caller hears so.
"""

from __future__ import annotations

import base64
import http.client
import json
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode, urlsplit

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from penstock.cli.administering.profiles import Profile

# Longer than the broker itself lets a request wait (moves: 30 s).
ANSWER_SECONDS: Final = 60.0
# A wrong address is noticed within this time.
CONNECT_SECONDS: Final = 10.0

UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
_METHOD_NOT_ALLOWED: Final = 405
_PORTS: Final = {"http": 15672, "https": 15671}

Row = dict[str, object]


class CannotConnect(Exception):
    """No answer; the text says why, `what_to_do` what to look at."""

    def __init__(self, reason: str, what_to_do: str) -> None:
        super().__init__(reason)
        self.what_to_do = what_to_do


class ApiRefused(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, reason: str, what_to_do: str) -> None:
        super().__init__(reason)
        self.status = status
        self.what_to_do = what_to_do


class WrongAddress(Exception):
    """--server is not a URL that can be asked."""


class ApiClient:
    """Held by the command's session."""

    def __init__(self, profile: Profile, answer_seconds: float = ANSWER_SECONDS) -> None:
        """Raises `WrongAddress`. Connects with the first request."""
        self._answer_seconds = answer_seconds
        self._profile = profile
        self.server = profile.server
        self._connection = _connection(profile)
        login = f"{profile.user}:{profile.password}".encode()
        self._headers = {
            "Authorization": f"Basic {base64.b64encode(login).decode()}",
            "Accept": "application/json",
        }

    def get(self, *path: str, **query: object) -> object:
        """Parts of the path are names and are escaped here."""
        return self.ask("GET", path, query=query)

    def rows(self, *path: str, **query: object) -> list[Row]:
        answer = self.get(*path, **query)
        found = answer if isinstance(answer, list) else []
        return [row for row in found if isinstance(row, dict)]

    def row(self, *path: str, **query: object) -> Row:
        answer = self.get(*path, **query)
        return answer if isinstance(answer, dict) else {}

    def put(self, *path: str, body: Mapping[str, object] | None = None) -> object:
        return self.ask("PUT", path, body={} if body is None else body)

    def post(self, *path: str, body: Mapping[str, object]) -> object:
        return self.ask("POST", path, body=body)

    def delete(self, *path: str, **query: object) -> object:
        return self.ask("DELETE", path, query=query)

    def ask(
        self,
        method: str,
        path: tuple[str, ...],
        *,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> object:
        """The answer's JSON, or None. Raises `CannotConnect` or `ApiRefused`."""
        target = "/api/" + "/".join(quote(part, safe="", errors="surrogateescape") for part in path)
        asked = {key: value for key, value in (query or {}).items() if value is not None}
        if asked:
            target += f"?{urlencode(asked)}"
        octets = None if body is None else json.dumps(body).encode("ascii")
        all_headers = {**self._headers, **(headers or {})}
        if octets is not None:
            all_headers["Content-Type"] = "application/json"
        status, answer = self._exchange(method, target, octets, all_headers)
        if status >= http.client.BAD_REQUEST:
            raise _refused(status, answer, self._profile.user)
        return _json_of(answer, self.server)

    def readiness(self) -> tuple[bool, str]:
        """Whether the broker is ready, and why not."""
        status, answer = self._exchange("GET", "/health/ready", None, self._headers)
        if status == http.client.OK:
            return True, ""
        read = _json_of(answer, self.server)
        told = read.get("reason") if isinstance(read, dict) else None
        return False, str(told or f"status {status}")

    def close(self) -> None:
        self._connection.close()

    def _exchange(
        self, method: str, target: str, octets: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        connection = self._connection
        try:
            if connection.sock is None:
                connection.timeout = min(CONNECT_SECONDS, self._answer_seconds)
                connection.connect()
                opened: socket.socket | None = connection.sock
                assert opened is not None, "it is connected"
                opened.settimeout(self._answer_seconds)
            connection.request(method, target, octets, headers)
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise _unreachable(self._profile, error) from error


def _connection(profile: Profile) -> http.client.HTTPConnection:
    text = profile.server if "://" in profile.server else f"http://{profile.server}"
    try:
        address = urlsplit(text)
        port = address.port
    except ValueError as error:
        raise WrongAddress(f"{profile.server!r} is not a valid address: {error}") from error
    if address.scheme not in _PORTS or not address.hostname or address.path not in {"", "/"}:
        raise WrongAddress(
            f"{profile.server!r} is not a valid address. Write --server http://HOST:PORT, or "
            "https://HOST:PORT"
        )
    if address.username is not None:
        raise WrongAddress(
            "a login does not belong in the address, where other users of the machine can see it. "
            "Use --user with PENSTOCK_PASSWORD, or a profile"
        )
    port = port or _PORTS[address.scheme]
    if address.scheme == "http":
        return http.client.HTTPConnection(address.hostname, port)
    # Imported only for https: it takes as long as a request.
    import ssl

    try:
        context = ssl.create_default_context(cafile=profile.ca or None)
    except OSError as error:
        raise WrongAddress(f"cannot use the certificates in {profile.ca}: {error}") from error
    return http.client.HTTPSConnection(address.hostname, port, context=context)


def _unreachable(profile: Profile, error: Exception) -> CannotConnect:
    text = str(error) or type(error).__name__
    if isinstance(error, ConnectionRefusedError):
        return CannotConnect(
            f"cannot connect to {profile.server}: nothing listens there",
            "Start a broker (penstock serve), or name its HTTP address with --server "
            "http://HOST:PORT; `penstock serve` prints it when it is ready.",
        )
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return CannotConnect(
            f"the certificate of {profile.server} is not trusted: {text}",
            "Name the authority that has signed it with --ca FILE.",
        )
    if "WRONG_VERSION_NUMBER" in text or "HTTP_REQUEST" in text:
        return CannotConnect(
            f"{profile.server} does not speak TLS", "Write http:// instead of https://."
        )
    if isinstance(error, TimeoutError):
        return CannotConnect(
            f"no answer from {profile.server} in time",
            "Check the address, and `penstock status`. A change may have been carried out.",
        )
    if isinstance(error, http.client.RemoteDisconnected | http.client.BadStatusLine):
        return CannotConnect(
            f"{profile.server} does not answer in HTTP",
            "Check that this is the HTTP port and not the AMQP port, and whether it needs https://.",
        )
    return CannotConnect(
        f"cannot connect to {profile.server}: {text}", "Check the address given with --server."
    )


def _refused(status: int, answer: bytes, user: str) -> ApiRefused:
    reason, what_to_do = f"the broker answered with the status {status}", ""
    try:
        problem = json.loads(answer)
    except ValueError:
        problem = None
    if isinstance(problem, dict):
        reason = str(problem.get("reason") or problem.get("error") or reason)
        what_to_do = str(problem.get("what_to_do", ""))
    if status == UNAUTHORIZED:
        reason = f"the login of user {user!r} was refused: {reason}"
        what_to_do = (
            "Name the user with --user and the password with PENSTOCK_PASSWORD, or both in a "
            "profile. The user guest can log in over a loopback address (127.0.0.1, ::1) only."
        )
    elif status == FORBIDDEN and not what_to_do:
        what_to_do = (
            f"See `penstock users` and `penstock permissions` for what {user!r} may do, or log in "
            "as another user with --user."
        )
    elif status == _METHOD_NOT_ALLOWED:
        what_to_do = "The broker may be older than this command; compare `penstock version`."
    return ApiRefused(status, reason, what_to_do)


def _json_of(answer: bytes, server: str) -> object:
    if not answer.strip():
        return None
    try:
        read: object = json.loads(answer)
    except ValueError as error:
        raise CannotConnect(
            f"{server} answered with something that is not JSON",
            "Check that this is the HTTP port of a broker.",
        ) from error
    return read
