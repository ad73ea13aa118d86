"""Defects of the broker's own: local where one connection met them, loud where none is to blame."""

import asyncio
import contextlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pika.exceptions
import pika.frame
import proton
import pytest
import uvloop
from pika import spec
from proton.utils import BlockingConnection
from structlog.testing import capture_logs

from penstock import Broker
from penstock.server.in_process import BrokerFailed
from penstock.server.launch import BROKEN, start
from penstock.server.running import Running
from penstock.server.server import SWEEP_SECONDS
from penstock.server.server_configuration import ServerConfiguration
from tests.behaviour.raw import RawConnection
from tests.server.defects import (
    BrokenAnswer,
    BrokenObserver,
    BrokenPublishing,
    BrokenTimer,
    PlantedDefect,
)
from tests.server.durable_broker import PERSISTENT, drain, durable_broker
from tests.server.opened import pika_connection
from tests.server.raw_client import wait_for
from tests.support.served import amqp_port, ready_facts

SECONDS_MAX = 40
ANSWER_SECONDS = 20
# A stretch in which a broker that goes on has surely swept a few times.
SWEEPS_SECONDS = 6 * SWEEP_SECONDS


class Stage:
    """A broker on this thread's loop, and clients of it. Held by one test."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.node = running.node
        self.server = running.server
        self.is_broken = asyncio.Event()
        self.server.when_broken = self.is_broken.set
        self._opened: list[RawConnection] = []

    async def open(self) -> RawConnection:
        return await asyncio.to_thread(self._open)

    def _open(self) -> RawConnection:
        connection = RawConnection(*self.running.address).open("guest", "guest", "/")
        self._opened.append(connection)
        connection.open_channel(1)
        connection.call(1, spec.Queue.Declare(queue="q"), spec.Queue.DeclareOk)
        return connection

    async def works(self, client: RawConnection) -> bool:
        """Whether the broker still serves this client."""
        declare = spec.Queue.Declare(queue="q", passive=True)
        await asyncio.to_thread(client.call, 1, declare, spec.Queue.DeclareOk)
        return True

    def number_of_newest(self) -> int:
        return max(self.node.connections)

    def close(self) -> None:
        for connection in self._opened:
            connection.socket.close()


Story = Callable[[Stage], Awaitable[None]]


def play(story: Story) -> list[dict[str, object]]:
    """Returns what was logged."""

    async def played() -> None:
        running = await start(ServerConfiguration(port=0, hosts=("127.0.0.1",)))
        stage = Stage(running)
        try:
            async with asyncio.timeout(SECONDS_MAX):
                await story(stage)
        finally:
            stage.close()
            await running.stop()

    with capture_logs() as said:
        uvloop.run(played())
    return [dict(line) for line in said]


def failures(said: list[dict[str, object]]) -> list[dict[str, object]]:
    return [line for line in said if line["event"] == "internal error"]


def culprits(said: list[dict[str, object]]) -> list[object]:
    return [line["connection"] for line in said if line["event"] == "connection failed"]


async def closed_with(client: RawConnection) -> int:
    close = await asyncio.to_thread(client.expect, spec.Connection.Close, 0)
    assert isinstance(close, spec.Connection.Close)
    return int(close.reply_code)


# What one connection has met.


def test_a_defect_met_while_input_is_processed_ends_that_connection_only() -> None:
    async def story(stage: Stage) -> None:
        other, client = await stage.open(), await stage.open()
        stage.node.intercept_publishes(BrokenPublishing())
        client.publish(1, "", "q", b"met")
        assert await closed_with(client) == 541
        assert await stage.works(other)
        assert not stage.server.health.problem()

    said = play(story)
    assert culprits(said) == [2]
    assert failures(said) == []


def test_a_defect_in_a_connections_confirms_ends_that_connection_only() -> None:
    async def story(stage: Stage) -> None:
        other, client = await stage.open(), await stage.open()
        newest = stage.node.connections[stage.number_of_newest()]
        BrokenAnswer(stage.node, 1, newest.outgoing)
        stage.server.schedule_flush()
        assert await closed_with(client) == 541
        assert await stage.works(other)
        assert not stage.server.health.problem()

    assert culprits(play(story)) == [2]


def test_a_defect_in_a_connections_timer_ends_that_connection_only() -> None:
    async def story(stage: Stage) -> None:
        other, client = await stage.open(), await stage.open()
        timer = BrokenTimer(stage.number_of_newest())
        stage.node.timers.schedule(timer, stage.server.now())
        stage.server.schedule_flush()
        assert await closed_with(client) == 541
        assert await stage.works(other)

    assert culprits(play(story)) == [2]


# What nobody is to blame for.


async def until_red(stage: Stage) -> str:
    while not (problem := stage.server.health.problem()):
        await asyncio.sleep(0.001)
    return problem


def test_one_tick_that_fails_is_logged_once_makes_the_broker_unhealthy_and_is_survived() -> None:
    async def story(stage: Stage) -> None:
        client = await stage.open()
        BrokenAnswer(stage.node, 1)
        stage.server.schedule_flush()
        assert "internal error" in await until_red(stage)
        assert await stage.works(client)
        await asyncio.sleep(SWEEPS_SECONDS)
        assert not stage.is_broken.is_set()
        # Whoever asks a few times a minute still hears of it.
        assert stage.server.health.problem()

    (failure,) = failures(play(story))
    assert isinstance(failure["exc_info"], PlantedDefect)


def hears_of(client: RawConnection, body: bytes) -> bool:
    while not isinstance(received := client.read_frame(), pika.frame.Body):
        pass
    return received.fragment == body or hears_of(client, body)


def test_what_else_a_failing_tick_has_to_do_is_done() -> None:
    async def story(stage: Stage) -> None:
        publisher, consumer = await stage.open(), await stage.open()
        consume = spec.Basic.Consume(queue="q", no_ack=True)
        await asyncio.to_thread(consumer.call, 1, consume, spec.Basic.ConsumeOk)
        declare = spec.Queue.Declare(queue="broken")
        await asyncio.to_thread(consumer.call, 1, declare, spec.Queue.DeclareOk)
        hears = spec.Basic.Consume(queue="broken")
        await asyncio.to_thread(consumer.call, 1, hears, spec.Basic.ConsumeOk)
        stage.node.state.vhost("/").queues["broken"].observers.append(BrokenObserver())
        # Both queues are dispatched in one tick, the broken one before the other.
        publisher.publish(1, "", "broken", b"its observer fails")
        publisher.publish(1, "", "q", b"comes all the same")
        await until_red(stage)
        assert await asyncio.to_thread(hears_of, consumer, b"comes all the same")

    (failure,) = failures(play(story))
    assert "queue 'broken'" in str(failure["doing"])


def test_two_ticks_that_fail_in_a_row_are_the_end() -> None:
    async def story(stage: Stage) -> None:
        BrokenAnswer(stage.node, 2)
        stage.server.schedule_flush()
        await stage.is_broken.wait()
        assert "two ticks" in stage.server.breakdown

    assert len(failures(play(story))) == 2


def test_a_timer_that_fails_leaves_the_others_in_time() -> None:
    async def story(stage: Stage) -> None:
        timers = [BrokenTimer() for _ in range(3)]
        for timer in timers:
            stage.node.timers.schedule(timer, stage.server.now())
        stage.server.schedule_flush()
        await until_red(stage)
        assert [timer.fired_count for timer in timers] == [1, 1, 1]
        client = await stage.open()
        assert await stage.works(client)

    said = failures(play(story))
    assert len(said) == 3
    # The same traceback again would tell nothing.
    assert [line["exc_info"] is None for line in said] == [False, True, True]


def test_a_connection_that_cannot_give_back_what_it_held_makes_the_broker_unhealthy() -> None:
    async def story(stage: Stage) -> None:
        other, client = await stage.open(), await stage.open()
        client.publish(1, "", "q", b"held")
        get = spec.Basic.Get(queue="q")
        await asyncio.to_thread(client.call, 1, get, spec.Basic.GetOk)
        stage.node.state.vhost("/").queues["q"].observers.append(BrokenObserver())
        client.socket.close()
        assert "lost connection" in await until_red(stage)
        assert len(stage.node.connections) == 1
        assert await stage.works(other)

    assert len(failures(play(story))) == 1


def test_one_channel_that_fails_does_not_keep_the_others_from_giving_back() -> None:
    async def story(stage: Stage) -> None:
        client = await stage.open()
        await asyncio.to_thread(client.open_channel, 2)
        declare = spec.Queue.Declare(queue="other")
        await asyncio.to_thread(client.call, 2, declare, spec.Queue.DeclareOk)
        for channel, queue in ((1, "q"), (2, "other")):
            client.publish(channel, "", queue, b"held")
            get = spec.Basic.Get(queue=queue)
            await asyncio.to_thread(client.call, channel, get, spec.Basic.GetOk)
            for _ in ("header", "body"):
                await asyncio.to_thread(client.read_frame)
        queues = stage.node.state.vhost("/").queues
        queues["q"].observers.append(BrokenObserver())
        client.socket.close()
        await until_red(stage)
        assert queues["other"].message_count == 1

    play(story)


def test_an_amqp_1_0_connection_that_meets_a_defect_hears_of_an_internal_error() -> None:
    async def story(stage: Stage) -> None:
        other = await stage.open()
        stage.node.intercept_publishes(BrokenPublishing())
        host, port = stage.running.address
        said = await asyncio.to_thread(refused_send, f"amqp://guest:guest@{host}:{port}")
        assert "amqp:internal-error" in said
        assert await stage.works(other)
        assert not stage.server.health.problem()

    assert culprits(play(story)) == [2]


def refused_send(url: str) -> str:
    """What a sender hears whose first message meets a defect."""
    connection = BlockingConnection(url, timeout=ANSWER_SECONDS, allowed_mechs="PLAIN")
    try:
        connection.create_sender("/queues/q").send(proton.Message("met"))
    except proton.ProtonException as error:
        return str(error)
    finally:
        with contextlib.suppress(proton.ProtonException):
            connection.close()
    return "it was sent"


class BrokenWatcher:
    """Fails from the beginning on."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        self.called_count = 0

    def __call__(self, now: int) -> None:
        self.called_count += 1
        raise self._error


def test_two_sweeps_that_fail_in_a_row_are_the_end() -> None:
    async def story(stage: Stage) -> None:
        stage.server.watchers.append(BrokenWatcher(PlantedDefect("a watcher")))
        await stage.is_broken.wait()
        assert "two sweeps" in stage.server.breakdown

    play(story)


def test_a_watcher_that_cannot_read_a_file_stops_neither_time_outs_nor_the_broker() -> None:
    async def story(stage: Stage) -> None:
        watcher = BrokenWatcher(OSError(24, "Too many open files"))
        stage.server.watchers.append(watcher)
        seen: list[int] = []
        stage.server.watchers.append(seen.append)
        while watcher.called_count < 4:
            await asyncio.sleep(0.01)
        assert len(seen) >= 3
        assert not stage.server.health.problem()

    said = play(story)
    assert len([line for line in said if line["event"] == "cannot check memory or disk"]) == 1


def test_what_no_one_catches_on_the_event_loop_is_loud() -> None:
    def fail() -> None:
        raise PlantedDefect("a callback")

    async def story(stage: Stage) -> None:
        asyncio.get_running_loop().call_soon(fail)
        assert "callback" in await until_red(stage)

    assert len(failures(play(story))) == 1


# Whole processes.


class BrokenProcess:
    """`broken_broker.py` over a data directory. Held by one test."""

    def __init__(self, data: Path) -> None:
        self.errors = tempfile.NamedTemporaryFile("a")  # noqa: SIM115 - closed by `close`
        command = [sys.executable, "-m", "tests.server.broken_broker", str(data)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.errors, text=True
        )
        self.facts = ready_facts(self.process)

    @property
    def url(self) -> str:
        return f"amqp://127.0.0.1:{amqp_port(self.facts)}"

    def health(self, page: str) -> httpx.Response:
        return httpx.get(f"http://{self.facts['http']}/health/{page}", timeout=20)

    def said(self) -> str:
        return Path(self.errors.name).read_text()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.errors.close()


def test_a_process_survives_one_failed_tick_and_exits_after_two(tmp_path: Path) -> None:
    broken = BrokenProcess(tmp_path / "data")
    try:
        channel = pika_connection(broken.url).channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        for number in range(50):
            channel.basic_publish("", "q", b"%d" % number, PERSISTENT)
        assert [broken.health(page).status_code for page in ("live", "ready")] == [200, 200]

        broken.process.send_signal(signal.SIGUSR1)
        for page in ("live", "ready"):
            wait_for(lambda page=page: broken.health(page).status_code == 503)
            assert "internal error" in broken.health(page).json()["reason"]
        channel.basic_publish("", "q", b"50", PERSISTENT)
        assert broken.said().count("Traceback") == 1

        broken.process.send_signal(signal.SIGUSR2)
        assert broken.process.wait(30) == BROKEN
        assert "two ticks in a row have failed" in broken.said()
    finally:
        broken.close()
    with durable_broker(tmp_path / "data") as broker:
        assert drain(broker.start().channel(), "q") == [b"%d" % number for number in range(51)]


def test_an_in_process_broker_that_breaks_says_so_to_its_owner() -> None:
    broker = Broker().start()
    client = pika_connection(broker.url)
    broker._call(lambda node, now: BrokenAnswer(node, 2))
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        wait_for(lambda: client.process_data_events(0.1))
    with pytest.raises(BrokerFailed, match="two ticks in a row"):
        wait_for(lambda: broker.connection_count < 0)
    with pytest.raises(BrokerFailed, match="two ticks in a row"):
        broker.stop()
    # Once is enough.
    broker.stop()
