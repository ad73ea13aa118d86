"""What a login waits for: users that are not known yet, the delay after a failure, the end of a token."""

from typing import Final

from penstock.broker.timers import Timer, Timers
from penstock.dialects.login_checker import LoginWaiter
from penstock.dialects.mechanisms import MechanismVerdict

# How often a login looks that waits for the first users of a cluster: they come once in its life.
HELD_LOGIN_MS: Final = 50


class TimedLogin(LoginWaiter):
    """A login as its timers see it; `Login` is the one real login."""

    def respond_again(self, response: bytes, now: int) -> bool:
        """Whether users are known by now, so that the response of the client could be looked at."""
        raise NotImplementedError

    def give_up(self, now: int) -> None:
        """There were no users in time."""
        raise NotImplementedError

    def judge(self, verdict: MechanismVerdict, asked_at: int, now: int) -> None:
        """A mechanism has decided by itself."""
        raise NotImplementedError

    def refuse(self, now: int) -> None:
        """The delay after a failed login is over."""
        raise NotImplementedError

    def token_due(self, now: int) -> None:
        """The token expires about now."""
        raise NotImplementedError


class HeldLogin(Timer):
    """A login at a server that knows no users yet. It waits as long as a client that has logged in
    waits for a root.
    """

    def __init__(self, login: TimedLogin, response: bytes, timers: Timers, until: int) -> None:
        super().__init__()
        self.connection = login.connection_number()
        self._login: TimedLogin = login
        self._response: bytes = response
        self._timers: Timers = timers
        self._until: int = until

    def fire(self, now: int) -> None:
        if self._login.respond_again(self._response, now):
            return
        if now >= self._until:
            self._login.give_up(now)
        else:
            self._timers.schedule(self, now + HELD_LOGIN_MS)


class LoginRefusal(Timer):
    """A failed login that waits for its answer."""

    def __init__(self, login: TimedLogin, connection_number: int) -> None:
        super().__init__()
        self.connection = connection_number
        self._login: TimedLogin = login

    def fire(self, now: int) -> None:
        self._login.refuse(now)


class TokenExpiry(Timer):
    """The token of a login expires. Held by the login."""

    def __init__(self, login: TimedLogin) -> None:
        super().__init__()
        self.connection = login.connection_number()
        self._login: TimedLogin = login

    def fire(self, now: int) -> None:
        self._login.token_due(now)


class Judgement(Timer):
    """A verdict that waits until failures of the same user and host allow it."""

    def __init__(self, login: TimedLogin, verdict: MechanismVerdict, asked_at: int) -> None:
        super().__init__()
        self.connection = login.connection_number()
        self._login: TimedLogin = login
        self._verdict: MechanismVerdict = verdict
        self._asked_at: int = asked_at

    def fire(self, now: int) -> None:
        self._login.judge(self._verdict, self._asked_at, now)
