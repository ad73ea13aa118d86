"""What a login tells the dialect of its client."""

from typing import Final

from mypy_extensions import mypyc_attr

# What a client hears whose token has expired.
LOGIN_EXPIRED: Final = "the token has expired; it has to be renewed before that"


@mypyc_attr(allow_interpreted_subclasses=True)
class LoginListener:
    """Tells a dialect's client how its login goes and ends, in the dialect's frames."""

    def login_withheld(self, is_withheld: bool) -> None:
        """The login waits for the first users of the cluster, for as long as that takes; or goes on."""
        raise NotImplementedError

    def login_challenged(self, challenge: bytes, now: int) -> None:
        """The client has to answer; its response goes to `Login.respond`."""
        raise NotImplementedError

    def login_accepted(self, now: int) -> None:
        raise NotImplementedError

    def login_refused(self, now: int) -> None:
        """The delay after a failed login is over."""
        raise NotImplementedError

    def login_postponed(self, now: int) -> None:
        """The password was not checked: `Login.postponed_reason`."""
        raise NotImplementedError

    def login_expired(self, now: int) -> None:
        """The token with which the client has logged in has expired: the connection ends."""
        raise NotImplementedError
