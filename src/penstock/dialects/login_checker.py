"""The interface for checking passwords elsewhere, because a check takes tens of milliseconds."""

from mypy_extensions import mypyc_attr

from penstock.broker.access.users import Verification


@mypyc_attr(allow_interpreted_subclasses=True)
class LoginWaiter:
    """Waits for a password to be checked: a connection, a request over HTTP."""

    def login_checked(self, verification: Verification, now: int) -> None:
        raise NotImplementedError

    def login_not_checked(self, now: int) -> None:
        """Too many logins wait; the peer is told so, and its password was not checked."""
        raise NotImplementedError

    def is_gone(self) -> bool:
        """Whether the answer is no longer needed, so that no check need be made."""
        return False

    def drop(self) -> None:
        """The answer was no longer needed, and no check was made."""

    def peer_host(self) -> str:
        """Checks are shared out evenly between hosts."""
        return ""

    def connection_number(self) -> int:
        """The connection to which an exception in these calls is attributed; 0 for none."""
        return 0


@mypyc_attr(allow_interpreted_subclasses=True)
class LoginChecker:
    """Runs a `Verification`: the server's runs it in a thread, the simulator's at once."""

    def check(self, verification: Verification, waiter: LoginWaiter) -> None:
        raise NotImplementedError
