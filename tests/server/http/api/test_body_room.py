"""Room for large bodies: one user leaves some to others, and nobody waits for ever."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from penstock.server.http.api.body_room import BodyRoom
from penstock.server.http.api.operation import BodyPlaces
from penstock.server.http.problems import Problem

LONG = 60.0


class Visitor:
    """Stays in the room until it is told to leave. Held by a test."""

    def __init__(self, room: BodyRoom, user: str) -> None:
        self._leave = asyncio.Event()
        self.is_inside = asyncio.Event()
        self.task = asyncio.create_task(self._visit(room, user))

    async def _visit(self, room: BodyRoom, user: str) -> None:
        async with room.place(user):
            self.is_inside.set()
            await self._leave.wait()

    async def enter(self) -> None:
        await asyncio.wait_for(self.is_inside.wait(), LONG)

    async def leave(self) -> None:
        self._leave.set()
        await self.task


def played(story: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(story())


def test_a_user_who_takes_all_its_places_leaves_some_to_others() -> None:
    async def story() -> None:
        room = BodyRoom(BodyPlaces("kind", 3, 2), LONG)
        first, second, third = (Visitor(room, "slow") for _ in range(3))
        await first.enter()
        await second.enter()
        other = Visitor(room, "other")
        await other.enter()
        assert not third.is_inside.is_set()
        await other.leave()
        await first.leave()
        await third.enter()
        await second.leave()
        await third.leave()

    played(story)


def test_the_room_is_bounded_for_all_together() -> None:
    async def story() -> None:
        room = BodyRoom(BodyPlaces("kind", 2, 2), 0.05)
        visitors = [Visitor(room, user) for user in ("a", "b")]
        for visitor in visitors:
            await visitor.enter()
        with pytest.raises(Problem, match="2 large requests of this kind") as found:
            await Visitor(room, "c").task
        assert found.value.status == 503
        assert found.value.headers["Retry-After"]
        for visitor in visitors:
            await visitor.leave()

    played(story)


def test_places_are_free_again_after_failures_and_disconnections() -> None:
    async def story() -> None:
        room = BodyRoom(BodyPlaces("kind", 1, 1), LONG)
        with pytest.raises(ValueError, match="failed"):
            async with room.place("a"):
                raise ValueError("failed")
        inside = Visitor(room, "a")
        await inside.enter()
        waiting = [Visitor(room, user) for user in ("a", "b")]
        await asyncio.sleep(0)
        for visitor in waiting:
            visitor.task.cancel()
        await asyncio.gather(*[visitor.task for visitor in waiting], return_exceptions=True)
        await inside.leave()
        last = Visitor(room, "b")
        await last.enter()
        await last.leave()

    played(story)
