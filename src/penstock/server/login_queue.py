"""Logins that wait for their passwords to be checked, shared out evenly.

Hosts take turns, and so do the users of one host: a host that sends a thousand logins delays its
own, not those of others.

Invariants: at most `WAITING_MAX` wait. A login whose peer has disconnected is never checked. No
login waits longer than `PATIENCE_MS`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.broker.access.login_delay import DELAY_MS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.broker.access.login_delay import LoginDelays
    from penstock.broker.access.users import Verification
    from penstock.dialects.login_checker import LoginWaiter

# A check takes 20 to 60 ms, so several hundred are done in the time that a handshake may take. At
# the limit the host with the most logins waiting loses its newest, unchecked.
WAITING_MAX: Final = 1_000
# After this time a login is given up unchecked: others came before it, or failures of its user and
# host still delay it. It is below the time that a handshake may take, so that its peer gets the
# answer.
PATIENCE_MS: Final = DELAY_MS_MAX


class WaitingLogin(NamedTuple):
    verification: Verification
    waiter: LoginWaiter


# The users of one host; each one's logins in the order in which they came.
_Users = dict[str, deque[WaitingLogin]]


class LoginQueue:
    """Held by the checker."""

    def __init__(self) -> None:
        # In the order of their next turns.
        self._hosts: dict[str, _Users] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, login: WaitingLogin) -> list[WaitingLogin]:
        """Returns the logins that were given up for it: disconnected or displaced ones, perhaps
        itself.
        """
        removed: list[WaitingLogin] = []
        if self._count >= WAITING_MAX:
            removed = self._take_gone()
        users = self._hosts.setdefault(login.waiter.peer_host(), {})
        users.setdefault(login.verification.name, deque()).append(login)
        self._count += 1
        if self._count > WAITING_MAX:
            removed.append(self._take_newest_of_most())
        return removed

    def next(self, delays: LoginDelays, now: int) -> WaitingLogin | None:
        """The login whose turn it is. None when there is none whose failures allow it yet."""
        for host in list(self._hosts):
            users = self._hosts[host]
            for user in list(users):
                if delays.check_at(user, host) > now:
                    continue
                # Both are last in their order from now on.
                logins = users.pop(user)
                login = logins.popleft()
                self._count -= 1
                del self._hosts[host]
                if logins:
                    users[user] = logins
                if users:
                    self._hosts[host] = users
                return login
        return None

    def take_overdue(self, now: int) -> list[WaitingLogin]:
        """Those that have waited for too long."""
        return self._take(lambda login: now - login.verification.asked_at >= PATIENCE_MS)

    def _take_gone(self) -> list[WaitingLogin]:
        return self._take(lambda login: login.waiter.is_gone())

    def _take(self, is_wanted: Callable[[WaitingLogin], bool]) -> list[WaitingLogin]:
        taken: list[WaitingLogin] = []
        hosts, self._hosts = self._hosts, {}
        for host, users in hosts.items():
            kept_users: _Users = {}
            for user, logins in users.items():
                kept: deque[WaitingLogin] = deque()
                for login in logins:
                    (taken if is_wanted(login) else kept).append(login)
                if kept:
                    kept_users[user] = kept
            if kept_users:
                self._hosts[host] = kept_users
        self._count -= len(taken)
        return taken

    def _take_newest_of_most(self) -> WaitingLogin:
        host = max(self._hosts, key=lambda name: sum(map(len, self._hosts[name].values())))
        users = self._hosts[host]
        user = max(users, key=lambda name: len(users[name]))
        login = users[user].pop()
        if not users[user]:
            del users[user]
        if not users:
            del self._hosts[host]
        self._count -= 1
        return login
