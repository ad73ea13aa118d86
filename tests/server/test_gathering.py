"""When the root of a cluster ends a tick while an operation of it is under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from penstock.server.gathering import GATHERED_BYTES_MAX, GATHERING_MS_MAX, Gathering


class HandledTimer:
    """What the event loop returns for a call that is due later."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class TimedLoop:
    """The part of an event loop that is used; the test lets time pass."""

    def __init__(self) -> None:
        self.timers: list[HandledTimer] = []

    def call_later(self, delay: float, call: Callable[[], None]) -> HandledTimer:
        assert delay * 1000 == GATHERING_MS_MAX
        self.timers.append(HandledTimer(call))
        return self.timers[-1]


class Scene:
    def __init__(self) -> None:
        self.is_committing = False
        self.loop = TimedLoop()
        self.woken = 0
        loop = cast("asyncio.AbstractEventLoop", self.loop)
        self.gathering = Gathering(lambda: self.is_committing, loop, self._wake)

    def _wake(self) -> None:
        self.woken += 1


def test_a_tick_ends_at_once_while_nothing_is_under_way() -> None:
    scene = Scene()
    assert not scene.gathering.holds_back(began=5, now=5)
    assert not scene.gathering.is_holding
    assert not scene.loop.timers


def test_a_tick_waits_until_the_operation_under_way_is_committed() -> None:
    scene = Scene()
    scene.is_committing = True
    assert scene.gathering.holds_back(began=5, now=5)
    assert scene.gathering.is_holding
    assert scene.gathering.holds_back(began=5, now=6)
    scene.is_committing = False
    assert not scene.gathering.holds_back(began=5, now=6)
    assert not scene.gathering.is_holding


def test_a_tick_that_waits_is_called_again_although_nothing_else_happens() -> None:
    scene = Scene()
    scene.is_committing = True
    assert scene.gathering.holds_back(began=5, now=5)
    assert scene.gathering.holds_back(began=5, now=5)
    assert len(scene.loop.timers) == 1
    scene.loop.timers[0].call()
    assert scene.woken == 1
    assert not scene.gathering.holds_back(began=5, now=5 + GATHERING_MS_MAX)
    assert scene.gathering.holds_back(began=9, now=9)
    assert len(scene.loop.timers) == 2


def test_a_tick_that_has_received_much_does_not_wait() -> None:
    scene = Scene()
    scene.is_committing = True
    scene.gathering.received(GATHERED_BYTES_MAX - 1)
    assert scene.gathering.holds_back(began=5, now=5)
    scene.gathering.received(1)
    assert not scene.gathering.holds_back(began=5, now=5)
    # What the next one receives is counted anew.
    assert scene.gathering.holds_back(began=5, now=5)


def test_a_tick_that_continues_what_the_last_one_did_not_complete_does_not_wait() -> None:
    scene = Scene()
    scene.is_committing = True
    scene.gathering.press()
    assert not scene.gathering.holds_back(began=5, now=5)
    assert scene.gathering.holds_back(began=5, now=5), "only that one"


def test_no_timer_is_left_when_the_server_has_stopped() -> None:
    scene = Scene()
    scene.is_committing = True
    scene.gathering.holds_back(began=5, now=5)
    scene.gathering.close()
    assert scene.loop.timers[0].is_cancelled
