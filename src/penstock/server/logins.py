"""Checks passwords in a thread, because one check takes tens of milliseconds on purpose."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from penstock.dialects.logins import LoginChecker, LoginWaiter

if TYPE_CHECKING:
    from penstock.broker.users import Verification
    from penstock.server.server import Server

# One check at a time: argon2 takes 19 MiB and a core, and a fleet that reconnects is answered
# from the remembered password after the first.
THREADS: Final = 1


class ThreadedLoginChecker(LoginChecker):
    """Held by the server."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="penstock-login")
        self._server: Server | None = None

    def attach(self, server: Server) -> None:
        self._server = server

    def check(self, verification: Verification, waiter: LoginWaiter) -> None:
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._executor, verification.run)

        def done(_: asyncio.Future[bool]) -> None:
            if self._server is not None:
                waiter.login_checked(verification, self._server.now())
                self._server.schedule_flush()

        future.add_done_callback(done)

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)
