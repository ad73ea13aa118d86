"""aio-pika: `connect_robust` knows one address only, so the application goes through its list."""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import cycle
from typing import TYPE_CHECKING

import aio_pika
from aio_pika.exceptions import CONNECTION_EXCEPTIONS, AMQPError

from tests.interop.failover.errand import (
    PAUSE_SECONDS,
    REST_SECONDS,
    WINDOW,
    Errand,
    body_of,
    errand,
    report_confirmed,
    report_received,
    until_told,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aio_pika.abc import AbstractChannel, AbstractConnection

# A connection that is lost, and what happens to everything that waits for an answer on it.
LOST = (*CONNECTION_EXCEPTIONS, AMQPError, asyncio.CancelledError)


async def connected(uris: Iterator[str]) -> AbstractConnection:
    while True:
        try:
            return await aio_pika.connect(next(uris))
        except LOST:
            await asyncio.sleep(PAUSE_SECONDS)


async def send(work: Errand) -> None:
    told = until_told()
    uris = cycle(work.uris())
    doubtful: deque[int] = deque()
    number = 0
    while doubtful or not told.is_set():
        connection = await connected(uris)
        try:
            channel = await connection.channel(publisher_confirms=True)
            while doubtful or not told.is_set():
                is_again = bool(doubtful)
                if is_again:
                    chosen = [doubtful.popleft() for _ in range(min(WINDOW, len(doubtful)))]
                else:
                    chosen = list(range(number, number + WINDOW))
                    number += WINDOW
                sent = [publish(channel, work.queue, one, is_again) for one in chosen]
                lost = [one for one in await asyncio.gather(*sent) if one is not None]
                doubtful.extend(lost)
                if lost:
                    break
                await asyncio.sleep(REST_SECONDS * WINDOW)
        except LOST:
            pass
        await connection.close()


async def publish(channel: AbstractChannel, queue: str, number: int, is_again: bool) -> int | None:
    """Returns the number if it was not confirmed."""
    message = aio_pika.Message(
        body_of(number, is_again).encode(), delivery_mode=aio_pika.DeliveryMode.PERSISTENT
    )
    try:
        await channel.default_exchange.publish(message, queue)
    except (*LOST, RuntimeError):
        return number
    report_confirmed(number)
    return None


async def receive(work: Errand) -> None:
    uris = cycle(work.uris())
    while True:
        connection = await connected(uris)
        try:
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=WINDOW)
            queue = await channel.get_queue(work.queue)
            async with queue.iterator() as messages:
                async for message in messages:
                    report_received(message.body.decode(), bool(message.redelivered))
                    await message.ack()
        except (*LOST, RuntimeError):
            await connection.close()


if __name__ == "__main__":
    mine = errand()
    asyncio.run(send(mine) if mine.is_sender else receive(mine))
