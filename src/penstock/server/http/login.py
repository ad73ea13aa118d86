"""HTTP's login, checked like every other login of the broker.

Same users, same hashes, same delays after failures, and the default user from this machine only. A token
(`Authorization: Bearer`, or in place of a password) is checked in this thread.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.broker.access.tags import MANAGEMENT, MONITORING
from penstock.broker.access.tokens import FAILED_TOKENS
from penstock.broker.access.users import may_connect_from, why_refused
from penstock.broker.events import Event, EventKind, Party, Severity
from penstock.dialects.login_checker import LoginWaiter
from penstock.dialects.login_counts import LoginCounts
from penstock.server.http.line import BrokerLine, heard
from penstock.server.http.problems import Problem
from penstock.server.server import is_loopback

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from penstock.broker.access.tokens import TokenGrant, TokenVerifier
    from penstock.broker.access.users import Verification
    from penstock.node.node import Node
    from penstock.server.logins import ThreadedLoginChecker
    from penstock.server.server import Server

# Tags that let a user look at everything, and those that open lists at all.
WATCHERS: Final = MONITORING
LISTERS: Final = MANAGEMENT

_CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="Penstock", charset="UTF-8"'}
_BASIC: Final = "basic"
_BEARER: Final = "bearer"


@dataclass(frozen=True, slots=True)
class Caller:
    """A user who has logged in, for one request."""

    name: str
    tags: tuple[str, ...]
    # Of the token, for a user who has logged in with one and is in no table.
    grant: TokenGrant | None = None

    def need_one_of(self, tags: frozenset[str]) -> None:
        if tags.isdisjoint(self.tags):
            raise Problem(
                403,
                f"user '{self.name}' has none of the tags that this request requires",
                f"Give the user one of these tags: {', '.join(sorted(tags))}.",
            )


@dataclass(frozen=True, slots=True)
class Refused:
    """A login that failed, and how long its answer must wait."""

    delay_ms: int


class Postponed:
    """A login that was not checked, because too many wait."""


class Doorkeeper:
    """Held by the application; every page but health asks it first."""

    def __init__(self, line: BrokerLine, logins: ThreadedLoginChecker) -> None:
        self._line = line
        self._logins = logins
        # In the HTTP server's thread.
        self.counts = LoginCounts()

    async def let_in(self, request: HTTPConnection) -> Caller:
        """Raises a `Problem` with status 401, after the delay that a failed login has."""
        verifier = self._verifier()
        scheme, said = _scheme_of(request.headers.get("authorization"), verifier is not None)
        if scheme == _BEARER and verifier is not None:
            token = said.encode(errors="replace")
            return await self._check_token(request, "", token, verifier)
        name, password = _credentials(said)
        return await self.check(request, name, password)

    def _verifier(self) -> TokenVerifier | None:
        return self._line.server.node.container.token_verifier

    async def _check_token(
        self, request: HTTPConnection, name: str, token: bytes, verifier: TokenVerifier
    ) -> Caller:
        verdict = verifier.verify(token, self._line.server.wall())
        grant, reason = verdict.grant, verdict.reason
        if grant is None:
            self.counts.failed += 1
            host, _ = peer_of(request)
            port = port_of(request)

            def refuse(node: Node, now: int) -> int:
                _note_refused(node, host, port, name, reason)
                return node.state.login_delays.failed(FAILED_TOKENS, host, now)

            delay = await self._line.ask(refuse)
            await asyncio.sleep(delay / 1000)
            raise _unauthorized("the token was refused")
        self.counts.succeeded += 1
        request.state.user = grant.user
        return Caller(grant.user, grant.tags, grant)

    async def check(self, request: HTTPConnection, name: str, password: bytes) -> Caller:
        """As `let_in`, for a login that came otherwise."""
        verifier = self._verifier()
        if verifier is not None and verifier.is_token(password):
            return await self._check_token(request, name, password, verifier)
        host, is_local = peer_of(request)
        check = LoginCheck(self._line.server, self._logins, host, is_local, port_of(request))
        self._line.tell(lambda: check.begin(name, password))
        try:
            verdict = await heard(check.verdict)
        finally:
            # Also when the client has gone away.
            check.is_over = True
        if isinstance(verdict, Postponed):
            raise Problem(
                429,
                "too many logins are waiting to be checked",
                "Try again later.",
                headers={"Retry-After": "10"},
            )
        if isinstance(verdict, Refused):
            self.counts.failed += 1
            await asyncio.sleep(verdict.delay_ms / 1000)
            raise _unauthorized("the login was refused")
        self.counts.succeeded += 1
        # For the log, should the request be refused.
        request.state.user = verdict.name
        return verdict


class LoginCheck(LoginWaiter):
    """One login, on the broker's loop."""

    def __init__(
        self, server: Server, logins: ThreadedLoginChecker, host: str, is_local: bool, port: int
    ) -> None:
        self._server = server
        self._logins = logins
        self._host = host
        self._is_local = is_local
        self._port = port
        self.verdict: Future[Caller | Refused | Postponed] = Future()
        # Set by the other thread: the result is no longer needed.
        self.is_over = False

    def begin(self, name: str, password: bytes) -> None:
        if not self.verdict.set_running_or_notify_cancel():
            return
        now = self._server.now()
        try:
            container = self._server.node.container
            if container.state.users.is_empty():
                # A member of a cluster gets its users from the first root.
                container.admission.check_root(now)
            verification = self._server.node.state.begin_login(name, password, self._host, now)
            if verification.remembered:
                self.login_checked(verification, now)
            else:
                self._logins.check(verification, self)
        except Exception as error:
            # Otherwise the request would wait for an answer that never comes.
            self.verdict.set_exception(error)

    def is_gone(self) -> bool:
        return self.is_over

    def peer_host(self) -> str:
        return self._host

    def login_not_checked(self, now: int) -> None:
        self.verdict.set_result(Postponed())

    def login_checked(self, verification: Verification, now: int) -> None:
        state = self._server.node.state
        name = verification.name
        user = state.users.find(name)
        good = state.users.settle(verification)
        if not good or user is None or not may_connect_from(user, self._is_local):
            self._note(name, why_refused(user, good, self._is_local))
            waited = now - verification.asked_at
            delay = state.login_delays.failed(name, self._host, now, waited)
            self.verdict.set_result(Refused(delay))
            return
        state.login_delays.succeeded(name, self._host)
        self.verdict.set_result(Caller(name, user.tags))

    def _note(self, name: str, reason: str) -> None:
        _note_refused(self._server.node, self._host, self._port, name, reason)


def _note_refused(node: Node, host: str, port: int, name: str, reason: str) -> None:
    party = Party(peer_host=host, peer_port=port, user=name)
    node.container.events.record(
        Event(EventKind.LOGIN_REFUSED, Severity.WARNING, party, reason, {"protocol": "HTTP"})
    )


def _scheme_of(header: str | None, takes_tokens: bool) -> tuple[str, str]:
    """The scheme, and what follows it."""
    if header is None:
        raise _unauthorized("authentication is required")
    scheme, _, said = header.partition(" ")
    known = (_BASIC, _BEARER) if takes_tokens else (_BASIC,)
    if scheme.lower() not in known:
        names = " and ".join(name.capitalize() for name in known)
        raise _unauthorized(f"authentication scheme {scheme[:20]!r} is not supported, only {names}")
    return scheme.lower(), said.strip()


def _credentials(encoded: str) -> tuple[str, bytes]:
    try:
        name, colon, password = base64.b64decode(encoded, validate=True).partition(b":")
        decoded = name.decode()
    except (binascii.Error, ValueError):
        raise _unauthorized("the Authorization header is not base64 of NAME:PASSWORD") from None
    if not colon:
        raise _unauthorized("the Authorization header is not base64 of NAME:PASSWORD")
    return decoded, password


def _unauthorized(reason: str) -> Problem:
    return Problem(
        401,
        reason,
        "Send HTTP Basic authentication with a user of the broker. The default user can log in "
        "from localhost only.",
        headers=_CHALLENGE,
    )


def peer_of(request: HTTPConnection) -> tuple[str, bool]:
    """The peer's host, and whether it is on this machine. A request that a proxy forwards is not,
    wherever the proxy is.
    """
    host = request.client.host if request.client is not None else ""
    is_forwarded = "forwarded" in request.headers or "x-forwarded-for" in request.headers
    return host, is_loopback(host) and not is_forwarded


def port_of(request: HTTPConnection) -> int:
    return request.client.port if request.client is not None else 0
