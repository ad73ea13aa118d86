"""One client does much at once: how much of it the server does before it looks at other sockets.

Counted and not timed, so that it holds on a machine of any speed; `python -m bench.fairness` has
the times.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pika
import uvloop
from pika import spec

from penstock.broker.topology import DeclareQueue
from penstock.dialects.amqp091.commit import PLACED_PER_UNIT, PLAIN_PER_UNIT
from penstock.dialects.turn import TOPOLOGY_UNITS, TURN_UNITS_MAX
from penstock.server.http.settings import HttpConfiguration
from penstock.server.launch import start
from penstock.server.running import Running
from penstock.server.server_configuration import ServerConfiguration
from tests.behaviour.raw import BODY, RawConnection, frame
from tests.server.opened import remember

SECONDS_MAX = 100.0
DECLARES = 12_000
STAGED = 50_000
# Units for what comes and again for what was kept, and the one that was too much of each.
DECLARES_PER_TICK_MAX = 2 * (TURN_UNITS_MAX // TOPOLOGY_UNITS + 1)


class Watched:
    """A broker on this thread's own loop, and a client whose octets wait in the kernel until the
    loop is let go on. Held by one test.
    """

    def __init__(self, running: Running) -> None:
        self.running = running

    async def connect(self) -> RawConnection:
        return await asyncio.to_thread(self._connect)

    def _connect(self) -> RawConnection:
        host, port = self.running.address
        connection = RawConnection(host, port)
        remember(connection.socket)
        connection.open("guest", "guest", "/")
        connection.open_channel(1)
        return connection

    def queue_count(self) -> int:
        return len(self.running.node.state.vhost("/").queues)

    async def most_per_turn(self, count: Callable[[], int], until: int) -> int:
        """The largest step that a figure makes while the loop goes round once."""
        largest = 0
        last = count()
        deadline = time.monotonic() + SECONDS_MAX
        while last < until:
            assert time.monotonic() < deadline, f"{last} of {until}"
            await asyncio.sleep(0)
            largest = max(largest, count() - last)
            last = count()
        return largest


async def _serve(story: Callable[[Watched], Awaitable[None]]) -> None:
    configuration = ServerConfiguration(port=0, http=HttpConfiguration(enabled=False))
    running = await start(configuration)
    try:
        await story(Watched(running))
    finally:
        await running.stop(0)


def test_pipelined_declares_are_done_a_few_hundred_at_a_time() -> None:
    async def story(watched: Watched) -> None:
        busy = await watched.connect()
        said = b"".join(
            pika.frame.Method(1, spec.Queue.Declare(queue=f"q{number}", nowait=True)).marshal()
            for number in range(DECLARES)
        )
        sending = asyncio.create_task(asyncio.to_thread(busy.send, said))
        most = await watched.most_per_turn(watched.queue_count, DECLARES)
        await sending
        assert 0 < most <= DECLARES_PER_TICK_MAX

    uvloop.run(_serve(story))


def test_a_long_commit_is_prepared_while_the_loop_goes_round() -> None:
    async def story(watched: Watched) -> None:
        busy = await watched.connect()
        node = watched.running.node
        node.apply_to_vhost("/", DeclareQueue("q"), watched.running.server.now())
        await asyncio.to_thread(busy.call, 1, spec.Tx.Select(), spec.Tx.SelectOk)
        publish = pika.frame.Method(1, spec.Basic.Publish(routing_key="q")).marshal()
        content = pika.frame.Header(1, 1, spec.BasicProperties()).marshal() + frame(BODY, 1, b"x")
        await asyncio.to_thread(busy.send, (publish + content) * STAGED)
        queue = node.state.vhost("/").queues["q"]
        call = asyncio.to_thread(busy.call, 1, spec.Tx.Commit(), spec.Tx.CommitOk)
        committing = asyncio.create_task(call)
        waited = 0
        deadline = time.monotonic() + SECONDS_MAX
        while queue.message_count == 0:
            assert time.monotonic() < deadline, "the commit is never done"
            if node.container.turns.waiting:
                waited += 1
            await asyncio.sleep(0)
        assert queue.message_count == STAGED
        await committing
        units = STAGED // PLAIN_PER_UNIT + STAGED // PLACED_PER_UNIT
        assert waited >= units // TURN_UNITS_MAX

    uvloop.run(_serve(story))
