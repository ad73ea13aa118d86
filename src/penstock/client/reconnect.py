"""When to try again, and where. Pure: the skin does the waiting and the connecting.

Invariants: every address is tried once before any wait; waits grow to a ceiling and never reach
zero after the first round, except for the root that a server names; two clients that lost the same broker do not reconnect at the same
moments.
"""

from dataclasses import dataclass, replace
from typing import Final

from penstock.client.redirect import REDIRECTS_MAX
from penstock.client.uri import Address
from penstock.world.entropy import Entropy

# The first wait is short because most losses are a restart of a second or two; the ceiling limits
# the attempts of a thousand clients while a broker stays down.
DELAY_MILLISECONDS_FIRST: Final = 100
DELAY_MILLISECONDS_MAX: Final = 30_000

# 2**16 steps of jitter are finer than the milliseconds they are multiplied with.
JITTER_STEPS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Attempt:
    """Connect to `address` after waiting `delay_milliseconds`."""

    address: Address
    delay_milliseconds: int


class ReconnectPolicy:
    """Held by one client; remembers how often it failed since it was last connected."""

    def __init__(
        self,
        addresses: list[Address],
        entropy: Entropy,
        delay_first: int = DELAY_MILLISECONDS_FIRST,
        delay_max: int = DELAY_MILLISECONDS_MAX,
    ) -> None:
        if not addresses:
            raise ValueError("a client needs at least one address")
        assert 0 < delay_first <= delay_max
        self._addresses: list[Address] = addresses
        self._entropy: Entropy = entropy
        self._delay_first: int = delay_first
        self._delay_max: int = delay_max
        self._failed_count: int = 0
        self._next_index: int = 0
        # The root that a server has named, and how often that happened since the last wait.
        self._redirect: Address | None = None
        self._redirect_count: int = 0

    def next_attempt(self) -> Attempt:
        """Addresses in turn, beginning with the one that worked last."""
        if self._redirect is not None:
            address, self._redirect = self._redirect, None
            return Attempt(address, 0)
        rounds = self._failed_count // len(self._addresses)
        address = self._addresses[self._next_index]
        if rounds == 0:
            return Attempt(address, 0)
        self._redirect_count = 0
        # The shift is capped first: the ceiling is reached long before 2**16 rounds.
        ceiling = min(self._delay_max, self._delay_first << min(rounds - 1, 16))
        dice = int.from_bytes(self._entropy.octets(2), "big")
        # Between half the ceiling and all of it: spread out, yet never at once.
        return Attempt(address, ceiling // 2 + (ceiling - ceiling // 2) * dice // JITTER_STEPS)

    def use_secret(self, secret: str) -> None:
        """From now on this is the password, or the token, at every address."""
        self._addresses = [replace(address, password=secret) for address in self._addresses]

    def redirected(self, root: Address | None) -> None:
        """A server of a cluster has named the root: it is tried next, without a wait."""
        if root is not None and self._redirect_count < REDIRECTS_MAX:
            self._redirect_count += 1
            self._redirect = root

    def failed(self) -> None:
        self._failed_count += 1
        self._next_index = (self._next_index + 1) % len(self._addresses)

    def connected(self) -> None:
        self._failed_count = 0
        self._redirect_count = 0
