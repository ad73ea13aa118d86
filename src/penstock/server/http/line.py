"""Calls from the HTTP server's thread to the broker's loop, the only place that touches its state.

Invariants: nothing here runs long on the broker's loop. `ask` is for questions of bounded size;
work that grows with the number of queues uses `walk`, one step per turn of the loop.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from penstock.node.durable_answer import DurableAnswer
from penstock.server.http.awaited import Awaited
from penstock.server.http.problems import Problem
from penstock.world.disk import DiskError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from penstock.node.node import Node
    from penstock.server.server import Server

T = TypeVar("T")

# A broker whose loop does not answer by then is not alive; the caller gets 503.
ANSWER_SECONDS: Final = 10.0
STEPPED_DOWN: Final = (
    "this server stopped being the root of its cluster before the change was committed, so it is not "
    "known whether the change was made"
)
LOOK_AT_THE_ROOT: Final = "Ask the present root whether the change is there, and repeat it if not."


class BrokerNotResponding(Exception):
    """The broker's loop is gone, or did not answer in time."""


class BrokerLine:
    """Held by everything in this room that needs the broker."""

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self._loop = loop

    def tell(self, call: Callable[[], None]) -> None:
        """Run it on the broker's loop, soon."""
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError as error:
            # Closed: the broker has ended.
            raise BrokerNotResponding("the broker has stopped") from error

    async def ask(self, question: Callable[[Node, int], T]) -> T:
        """Run a question on the broker's loop and return its result, or raise its exception."""
        answer: Future[T] = Future()

        def run() -> None:
            if not answer.set_running_or_notify_cancel():
                return
            try:
                answer.set_result(question(self.server.node, self.server.now()))
            except Exception as error:
                answer.set_exception(error)

        self.tell(run)
        return await heard(answer)

    async def change_safely(
        self, command: Callable[[Node, int], T], seconds: float = ANSWER_SECONDS
    ) -> T:
        """As `ask`, answered when what the tick wrote would survive a power loss. Whoever has more
        to do than others waits for more `seconds`. In a cluster only the active root changes
        anything: raises `NotRoot` elsewhere, before the command is called.
        """

        def change(node: Node, now: int) -> T:
            node.container.admission.check_root(now)
            return command(node, now)

        return await self.change_here(change, seconds)

    async def change_here(
        self, command: Callable[[Node, int], T], seconds: float = ANSWER_SECONDS
    ) -> T:
        """The same for what concerns this server alone, whatever its role: its connections."""
        answer: Future[T] = Future()

        def run() -> None:
            if not answer.set_running_or_notify_cancel():
                return
            node = self.server.node
            try:
                result = command(node, self.server.now())
            except DiskError as error:
                # A message that was paged out cannot be read back; nothing of this tick is
                # answered.
                node.storage_failed(str(error))
            except Exception as error:
                answer.set_exception(error)
            else:
                DurableAnswer(
                    node,
                    lambda: answer.set_result(result),
                    lambda: answer.set_exception(Problem(503, STEPPED_DOWN, LOOK_AT_THE_ROOT)),
                )
            self.server.schedule_flush()

        self.tell(run)
        return await heard(answer, seconds)

    async def until(self, has_come: Callable[[], bool], seconds: float) -> bool:
        """Whether a condition became true on the broker's loop within some seconds, and is
        durable.
        """
        answer: Future[bool] = Future()

        def run() -> None:
            if answer.set_running_or_notify_cancel():
                now = self.server.now()
                until = now + int(seconds * 1000)
                try:
                    Awaited(self.server.node, has_come, answer.set_result, until).fire(now)
                except Exception as error:
                    answer.set_exception(error)
                self.server.schedule_flush()

        self.tell(run)
        return await heard(answer, seconds + ANSWER_SECONDS)

    async def walk(
        self, begin: Callable[[Node], Generator[None, None, T]], seconds: float = ANSWER_SECONDS
    ) -> T:
        """Run a walk step by step and return its result; other work has its turn between the
        steps.
        """
        walk = SteppedWalk(self._loop, lambda: begin(self.server.node))
        self.tell(walk.step)
        return await heard(walk.answer, seconds)

    def run_in_steps(
        self, steps: Generator[None, None, None], ended: Callable[[Exception | None], None]
    ) -> None:
        """On the broker's loop already: one step per turn of the loop, while nobody waits for it."""
        walk = SteppedWalk(self._loop, lambda: steps)
        walk.answer.add_done_callback(lambda answer: ended(_exception_of(answer)))
        walk.step()


class SteppedWalk(Generic[T]):
    """One walk, a step per turn of the broker's loop. Held by the loop's next call alone: a function
    that calls itself again would be a cycle, and keep what was found, which may be ten thousand
    records, until garbage is collected.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, begin: Callable[[], Generator[None, None, T]]
    ) -> None:
        self.answer: Future[T] = Future()
        self._loop = loop
        self._begin = begin
        self._steps: Generator[None, None, T] | None = None

    def step(self) -> None:
        try:
            if self._steps is None:
                # From here on it cannot be cancelled: the other thread may leave at any time.
                if not self.answer.set_running_or_notify_cancel():
                    return
                self._steps = self._begin()
            next(self._steps)
        except StopIteration as end:
            self.answer.set_result(end.value)
        except Exception as error:
            self.answer.set_exception(error)
        else:
            self._loop.call_soon(self.step)


def _exception_of(answer: Future[None]) -> Exception | None:
    error = answer.exception()
    return error if isinstance(error, Exception) else None


async def heard(answer: Future[T], seconds: float = ANSWER_SECONDS) -> T:
    """Wait for an answer of the broker's loop. Raises `BrokerNotResponding`."""
    try:
        return await asyncio.wait_for(asyncio.wrap_future(answer), seconds)
    except TimeoutError as error:
        raise BrokerNotResponding(f"the broker did not answer in {seconds:.0f} s") from error
