"""The servers of a cluster as a client meets them: only the root serves it.

A server that is not the root closes the connection with 320 and names the root's address; one that
knows no root says so, and another server is tried.
"""

import re
from dataclasses import replace
from typing import Final

from penstock.client.errors import ClientError, ConnectFailed, ReplyError
from penstock.client.uri import Address, Tls

CONNECTION_FORCED: Final = 320
# A root may have changed again while a client follows; after so many the next address is tried.
REDIRECTS_MAX: Final = 3

_ROOT: Final = re.compile(
    r"root of this cluster: connect to (amqps://)?(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):(\d{1,5})$"
)


def is_elsewhere(error: ReplyError) -> bool:
    """Whether another server may serve this client."""
    return error.code == CONNECTION_FORCED


def root_of(error: ReplyError, asked: Address) -> Address | None:
    """The root that a server has named, with the login of the server that was asked."""
    found = _ROOT.search(error.text)
    if not is_elsewhere(error) or found is None:
        return None
    tls = (asked.tls or Tls()) if found[1] else None
    return replace(asked, host=found[2].strip("[]"), port=int(found[3]), tls=tls)


class Tour:
    """The addresses that one attempt to connect goes through. Held by a skin's `connect`."""

    def __init__(self, addresses: list[Address]) -> None:
        self._left: list[Address] = list(addresses)
        self._redirects: int = 0
        # What was tried and what each one answered.
        self.attempts: list[tuple[str, str]] = []
        # The last server that closed the connection; None while all were out of reach.
        self.closed: ReplyError | None = None

    def next_address(self) -> Address | None:
        return self._left.pop(0) if self._left else None

    def unreachable(self, attempts: list[tuple[str, str]]) -> None:
        self.attempts.extend(attempts)

    def failure(self) -> ClientError:
        """What to raise when no address is left."""
        if self.closed is not None and len(self.attempts) == 1:
            return self.closed
        return ConnectFailed(self.attempts)

    def was_closed(self, address: Address, error: ReplyError) -> bool:
        """Whether another address may help; the root that was named comes first."""
        if not is_elsewhere(error):
            return False
        self.attempts.append((str(address), str(error)))
        self.closed = error
        root = root_of(error, address)
        if root is not None and root != address and self._redirects < REDIRECTS_MAX:
            self._redirects += 1
            self._left = [root, *(left for left in self._left if left != root)]
        return True
