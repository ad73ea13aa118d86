"""Walks on the broker's loop."""

import asyncio
import gc
import weakref
from collections.abc import Generator

import pytest

from tests.server.http.doubles import HearingServer, OneConnectionNode, line_to


class Found:
    """What a walk has gathered."""


def test_what_a_walk_has_found_is_not_kept_when_it_was_answered() -> None:
    """It may be ten thousand records, and looking for garbage among them stops the broker."""
    known: list[weakref.ref[Found]] = []

    def walk() -> Generator[None, None, Found]:
        yield
        yield
        found = Found()
        known.append(weakref.ref(found))
        return found

    async def ask() -> None:
        line = line_to(HearingServer(OneConnectionNode()))
        assert isinstance(await line.walk(lambda node: walk()), Found)

    gc.disable()
    try:
        asyncio.run(ask())
        assert known[0]() is None
    finally:
        gc.enable()


def test_a_walk_that_fails_fails_where_it_is_awaited() -> None:
    def walk() -> Generator[None, None, int]:
        yield
        raise ValueError("a test")

    async def ask() -> None:
        await line_to(HearingServer(OneConnectionNode())).walk(lambda node: walk())

    with pytest.raises(ValueError, match="a test"):
        asyncio.run(ask())


@pytest.mark.parametrize("is_failing", [False, True])
def test_steps_that_nobody_waits_for_say_how_they_ended(is_failing: bool) -> None:
    heard: list[Exception | None] = []

    def walk() -> Generator[None, None, None]:
        yield
        if is_failing:
            raise ValueError("a test")

    async def run() -> None:
        ended = asyncio.Event()

        def hear(error: Exception | None) -> None:
            heard.append(error)
            ended.set()

        line_to(HearingServer(OneConnectionNode())).run_in_steps(walk(), hear)
        await ended.wait()

    asyncio.run(run())
    assert [isinstance(one, ValueError) for one in heard] == [is_failing]
