"""A disk that fails outside the end of a tick: the server hears of it and says nothing more."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pika.exceptions
import pytest
import uvloop
from pika import spec
from pika.adapters.blocking_connection import BlockingChannel

from penstock.broker.queues.paged_list import PagingLimits
from penstock.broker.store.limits import StoreLimits
from penstock.node.configuration import NodeConfiguration
from penstock.node.node import Node
from penstock.server.disk_space import SWEEPS, DiskWatcher
from penstock.server.launch import STORAGE_FAILED
from penstock.server.logins import ThreadedLoginChecker
from penstock.server.server import SWEEP_SECONDS, Server
from penstock.server.world.entropy import MachineEntropy
from tests.behaviour.raw import BrokerSilentError, RawConnection
from tests.server.doubles import FailingDisk, HandClock
from tests.server.durable_broker import PERSISTENT, durable_broker

SECONDS_MAX = 20
# How long nothing must be said before a test believes that nothing will.
QUIET_SECONDS = 0.3
# Messages published; but for one, all of them are on disk.
COUNT = 10
PAGES = PagingLimits(head_count_max=2, head_count_kept=1, page_count=1)
TIME_TO_LIVE_MS = 20
FAILURE = "Input/output error"


class Stage:
    """A server over a disk that can be made to fail, and one client of it. Held by one test."""

    def __init__(self) -> None:
        self.disk = FailingDisk()
        self.clock = HandClock()
        self.logins = ThreadedLoginChecker()
        self.node = Node(
            NodeConfiguration("1", "a test", "stage", store=StoreLimits(paging=PAGES)),
            MachineEntropy(),
            self.logins,
            self.clock.now(),
            self.clock.wall(),
            self.disk,
        )
        self.server = Server(self.node, self.clock)
        self.logins.attach(self.server)
        self.failed = asyncio.Event()
        self.server.when_storage_fails = self.failed.set

    async def connect(self) -> RawConnection:
        host, port = await self.server.listen("127.0.0.1", 0)
        return await asyncio.to_thread(opened, host, port)

    async def has_failed(self) -> None:
        await self.failed.wait()
        assert FAILURE in self.node.storage_failure

    async def close(self) -> None:
        self.logins.close()
        await self.server.stop()


def opened(host: str, port: int) -> RawConnection:
    """A client with a full queue `q`, whose dead letters go to `dead`."""
    client = RawConnection(host, port).open("guest", "guest", "/")
    client.open_channel(1)
    client.call(1, spec.Confirm.Select(), spec.Confirm.SelectOk)
    arguments = {
        "x-message-ttl": TIME_TO_LIVE_MS,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
    }
    for queue in (
        spec.Queue.Declare(queue="dead"),
        spec.Queue.Declare(queue="q", arguments=arguments),
    ):
        client.call(1, queue, spec.Queue.DeclareOk)
    for _ in range(COUNT):
        client.publish(1, "", "q", b"on disk")
        client.expect(spec.Basic.Ack)
    return client


def play(story: Callable[[Stage, RawConnection], Awaitable[None]]) -> None:
    async def played() -> None:
        stage = Stage()
        try:
            async with asyncio.timeout(SECONDS_MAX):
                with await stage.connect() as client:
                    await story(stage, client)
        finally:
            await stage.close()

    uvloop.run(played())


def check_silence(client: RawConnection) -> None:
    with pytest.raises(BrokerSilentError, match="nothing came in time"):
        client.read_frame(QUIET_SECONDS)


def test_a_message_that_cannot_be_read_back_for_its_client_is_a_failed_disk() -> None:
    async def story(stage: Stage, client: RawConnection) -> None:
        get = spec.Basic.Get(queue="q", no_ack=True)
        assert await asyncio.to_thread(client.call, 1, get, spec.Basic.GetOk)
        await asyncio.to_thread(client.read_frame)
        await asyncio.to_thread(client.read_frame)
        stage.disk.fails = True
        for _ in range(COUNT):
            client.send_method(1, get)
        await stage.has_failed()
        # Neither the message, nor that there is none, nor anything else on this connection.
        await asyncio.to_thread(check_silence, client)

    play(story)


def test_a_message_that_cannot_be_read_back_when_its_time_is_over_is_a_failed_disk() -> None:
    async def story(stage: Stage, client: RawConnection) -> None:
        stage.disk.fails = True
        stage.clock.milliseconds += 2 * TIME_TO_LIVE_MS
        await stage.has_failed()
        client.send_method(1, spec.Queue.Declare(queue="dead", passive=True))
        await asyncio.to_thread(check_silence, client)

    play(story)


def test_a_disk_that_cannot_even_be_asked_for_its_room_is_a_failed_disk() -> None:
    async def story(stage: Stage, client: RawConnection) -> None:
        del client
        stage.server.watchers.append(DiskWatcher(stage.node, stage.disk))
        stage.disk.fails = True
        async with asyncio.timeout(3 * SWEEPS * SWEEP_SECONDS):
            await stage.has_failed()

    play(story)


def test_a_tick_that_cannot_be_stored_for_a_defect_of_ours_promises_nothing() -> None:
    async def story(stage: Stage, client: RawConnection) -> None:
        broken = asyncio.Event()
        stage.server.when_broken = broken.set
        declare = spec.Queue.Declare(queue="durable", durable=True)
        await asyncio.to_thread(client.call, 1, declare, spec.Queue.DeclareOk)
        stage.disk.is_defective = True
        client.publish(1, "", "durable", b"never confirmed", PERSISTENT)
        await broken.wait()
        assert "two ticks" in stage.server.breakdown
        assert stage.server.health.problem()
        await asyncio.to_thread(check_silence, client)
        # Nor by a tick that would have nothing to store.
        stage.disk.is_defective = False
        stage.server.schedule_flush()
        await asyncio.to_thread(check_silence, client)

    play(story)


def drain(channel: BlockingChannel, queue: str) -> None:
    while channel.basic_get(queue, auto_ack=True)[0]:
        pass


def test_a_damaged_file_ends_the_process_with_its_exit_code_and_a_reason(tmp_path: Path) -> None:
    with durable_broker(tmp_path / "data") as broker:
        channel = broker.start().channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        # More octets than a queue keeps in memory.
        for _ in range(20):
            channel.basic_publish("", "q", bytes(1 << 20), PERSISTENT)
        for segment in broker.segments():
            os.truncate(segment, 100)
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            drain(channel, "q")
        assert broker.process.wait(10) == STORAGE_FAILED
        said = broker.errors()
        assert "storage failed, stopping" in said
        assert "journal/" in said
        assert "Traceback" not in said
