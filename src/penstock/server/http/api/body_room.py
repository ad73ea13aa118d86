"""Room for large bodies: how many are read at once, in all and of one user.

A large body is held in memory as a whole, and a client may send it slowly. So there are few places, and
one user cannot take all of them: its further requests wait for its own, and not for others.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from penstock.server.http.problems import Problem
from penstock.server.http.settings import LARGE_BODY_TURN_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.server.http.api.operation import BodyPlaces


class UserPlaces:
    """The places of one user. Held by the room while a request of this user is there."""

    def __init__(self, count: int) -> None:
        self.free = asyncio.Semaphore(count)
        # Requests that have a place or wait for one.
        self.request_count = 0


class BodyRoom:
    """Held by the routes of the operations that share it."""

    def __init__(self, places: BodyPlaces, seconds: float = LARGE_BODY_TURN_SECONDS) -> None:
        self._places = places
        self._seconds = seconds
        self._free = asyncio.Semaphore(places.count)
        self._users: dict[str, UserPlaces] = {}

    @asynccontextmanager
    async def place(self, user: str) -> AsyncIterator[None]:
        """Raises a `Problem` when none becomes free in time."""
        own = self._users.setdefault(user, UserPlaces(self._places.count_of_user))
        own.request_count += 1
        try:
            async with AsyncExitStack() as held:
                try:
                    async with asyncio.timeout(self._seconds):
                        await held.enter_async_context(own.free)
                        await held.enter_async_context(self._free)
                except TimeoutError:
                    raise self._full() from None
                yield
        finally:
            own.request_count -= 1
            if own.request_count == 0:
                del self._users[user]

    def _full(self) -> Problem:
        places = self._places
        return Problem(
            503,
            f"{places.count} large requests of this kind, or {places.count_of_user} of this user, "
            f"were in progress for {self._seconds:.0f} s",
            "Try again later.",
            headers={"Retry-After": "10", "Connection": "close"},
        )
