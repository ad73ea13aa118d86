"""Checks passwords in a thread, because one check takes tens of milliseconds on purpose."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import structlog

from penstock.dialects.login_checker import LoginChecker, LoginWaiter
from penstock.server.login_queue import LoginQueue, WaitingLogin

if TYPE_CHECKING:
    from penstock.broker.access.users import Verification
    from penstock.server.server import Server

log = structlog.get_logger()

# One check at a time: argon2 takes 19 MiB and a core, and a fleet that reconnects is answered
# from the remembered password after the first.
THREADS: Final = 1
# How often a login that must wait because of an earlier failure is looked at again.
LOOK_SECONDS: Final = 0.05
# Logins that are answered at once, from the remembered password, before others have their turn.
ANSWERED_PER_TURN: Final = 100
# Logins that are given up are logged at most this often.
LOG_SECONDS: Final = 60.0


class ThreadedLoginChecker(LoginChecker):
    """Held by the server. Everything but `Verification.run` happens on its loop."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="penstock-login")
        self._server: Server | None = None
        self._queue = LoginQueue()
        self._is_checking = False
        self._look: asyncio.TimerHandle | None = None
        self._given_up_count = 0
        self._told_at = -LOG_SECONDS
        self._is_closed = False

    def attach(self, server: Server) -> None:
        self._server = server

    def check(self, verification: Verification, waiter: LoginWaiter) -> None:
        server = self._attached()
        for login in self._queue.add(WaitingLogin(verification, waiter)):
            self._give_up(server, login)
        self._go_on()

    def close(self) -> None:
        self._is_closed = True
        if self._look is not None:
            self._look.cancel()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _attached(self) -> Server:
        assert self._server is not None, "attached before the first client connects"
        return self._server

    def _go_on(self) -> None:
        """Give the thread the next login, if it is free and there is one."""
        if self._look is not None:
            self._look.cancel()
            self._look = None
        if self._is_checking or self._is_closed:
            return
        server = self._attached()
        now = server.now()
        for overdue in self._queue.take_overdue(now):
            self._give_up(server, overdue)
        delays = server.node.state.login_delays
        for _ in range(ANSWERED_PER_TURN):
            login = self._queue.next(delays, now)
            if login is None:
                break
            if login.waiter.is_gone():
                self._drop(server, login)
            elif self._begin(server, login):
                return
        if len(self._queue):
            self._look = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._go_on)

    def _begin(self, server: Server, login: WaitingLogin) -> bool:
        """Whether the thread is busy with it. It is not when the password is remembered by now."""
        asked = login.verification
        verification = server.node.state.users.verifier(asked.name, asked.password)
        verification.asked_at = asked.asked_at
        login = WaitingLogin(verification, login.waiter)
        if verification.remembered:
            self._answer(server, login)
            return False
        self._is_checking = True
        future = asyncio.get_running_loop().run_in_executor(self._executor, verification.run)
        future.add_done_callback(lambda done: self._done(server, login, done))
        return True

    def _done(self, server: Server, login: WaitingLogin, done: asyncio.Future[bool]) -> None:
        self._is_checking = False
        if self._is_closed or done.cancelled():
            return
        error = done.exception()
        if error is not None:
            # A password that could not be checked is refused.
            log.error("a password could not be checked", exc_info=error)
        self._answer(server, login)
        self._go_on()

    def _answer(self, server: Server, login: WaitingLogin) -> None:
        now = server.now()
        try:
            login.waiter.login_checked(login.verification, now)
        except Exception as error:
            self._blame(server, login.waiter, error)
        server.schedule_flush()

    def _drop(self, server: Server, login: WaitingLogin) -> None:
        """The peer has disconnected. A wrong password counts all the same."""
        verification = login.verification
        if verification.is_known_wrong:
            host = login.waiter.peer_host()
            server.node.state.login_delays.failed(verification.name, host, server.now())
        login.waiter.drop()

    def _give_up(self, server: Server, login: WaitingLogin) -> None:
        if login.waiter.is_gone():
            self._drop(server, login)
            return
        try:
            login.waiter.login_not_checked(server.now())
        except Exception as error:
            self._blame(server, login.waiter, error)
        server.schedule_flush()
        self._given_up_count += 1
        seconds = asyncio.get_running_loop().time()
        if seconds - self._told_at >= LOG_SECONDS:
            log.warning(
                "logins were not checked: too many are waiting, or too many of one user and host "
                "have failed",
                count=self._given_up_count,
                user=login.verification.name,
                peer=login.waiter.peer_host(),
            )
            self._given_up_count = 0
            self._told_at = seconds

    def _blame(self, server: Server, waiter: LoginWaiter, error: Exception) -> None:
        connection = server.node.connections.get(waiter.connection_number())
        if connection is None:
            server.node.failed("answering a login", error)
        else:
            server.node.connection_failed(connection, "answering its login", error, server.now())
