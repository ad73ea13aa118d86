"""Checking a password takes tens of milliseconds, so it happens elsewhere; the seam for that."""

from mypy_extensions import mypyc_attr

from penstock.broker.users import Verification


@mypyc_attr(allow_interpreted_subclasses=True)
class LoginWaiter:
    """Who waits for a password to be checked: a connection."""

    def login_checked(self, verification: Verification, now: int) -> None:
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class LoginChecker:
    """Runs a `Verification`: the server's runs it in a thread, the simulator's at once."""

    def check(self, verification: Verification, waiter: LoginWaiter) -> None:
        raise NotImplementedError
