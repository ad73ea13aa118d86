"""Checking a password takes tens of milliseconds, so it happens elsewhere; the seam for that."""

from mypy_extensions import mypyc_attr

from penstock.broker.access.users import Verification


@mypyc_attr(allow_interpreted_subclasses=True)
class LoginWaiter:
    """Who waits for a password to be checked: a connection, a request over HTTP."""

    def login_checked(self, verification: Verification, now: int) -> None:
        raise NotImplementedError

    def login_not_checked(self, now: int) -> None:
        """Too many logins wait; the peer is told so, and nothing about its password."""
        raise NotImplementedError

    def is_gone(self) -> bool:
        """Whether nobody waits for the answer any more, so that no check need be made."""
        return False

    def drop(self) -> None:
        """Nobody waited any more, and no check was made."""

    def peer_host(self) -> str:
        """Checks are shared out evenly between hosts."""
        return ""

    def connection_number(self) -> int:
        """The connection that a defect met in these calls is put down to; 0 for none."""
        return 0


@mypyc_attr(allow_interpreted_subclasses=True)
class LoginChecker:
    """Runs a `Verification`: the server's runs it in a thread, the simulator's at once."""

    def check(self, verification: Verification, waiter: LoginWaiter) -> None:
        raise NotImplementedError
