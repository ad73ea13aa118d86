"""A TLS terminator, as it stands before brokers that listen in the clear."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from typing import Self

READ_BYTES = 65_536
START_SECONDS = 10.0


class Terminator:
    """Takes TLS on a free port of loopback and passes octets to a plain port; in a thread of its
    own. Held by one test as a context manager.
    """

    def __init__(self, context: ssl.SSLContext, plain_port: int) -> None:
        self._context = context
        self._plain_port = plain_port
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="terminator")
        self._listening: Future[int] = Future()
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepted: list[socket.socket] = []
        self._transports: list[asyncio.Transport] = []
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self.port = self._listening.result(START_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            self._listening.set_result(listener.getsockname()[1])
            self._loop.add_reader(listener, self._accept, listener)
            await self._ended.wait()
            self._loop.remove_reader(listener)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for transport in self._transports:
                transport.abort()
            # One whose task was cancelled before it began is in nobody's hands.
            for accepted in self._accepted:
                accepted.close()

    def _accept(self, listener: socket.socket) -> None:
        # By hand, because asyncio's server does not tell of handshakes that are under way; and not in
        # a task, because one that is cancelled may have taken a socket that nobody hears of.
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            accepted, _ = listener.accept()
            accepted.setblocking(False)
            self._accepted.append(accepted)
            self._tasks.add(self._loop.create_task(self._pass_on(accepted)))

    async def _pass_on(self, accepted: socket.socket) -> None:
        # In two steps, because asyncio forgets a socket whose `connect_accepted_socket(ssl=...)` is
        # cancelled in its first turn.
        raw, _ = await self._loop.connect_accepted_socket(Doorstep, accepted)
        self._transports.append(raw)
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport = await self._loop.start_tls(raw, protocol, self._context, server_side=True)
        except OSError:
            # One side did not like the other; the client's error is what a test looks at.
            return
        if transport is None:
            return
        protocol.connection_made(transport)
        writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
        async with closing(writer):
            plain = await asyncio.open_connection("127.0.0.1", self._plain_port)
            async with closing(plain[1]):
                ways = [
                    asyncio.create_task(pump(reader, plain[1])),
                    asyncio.create_task(pump(plain[0], writer)),
                ]
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                for way in ways:
                    way.cancel()


class Doorstep(asyncio.Protocol):
    """Leaves all that the client sends to TLS, which comes a turn of the loop later."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(READ_BYTES):
            writer.write(data)
            await writer.drain()


@contextlib.asynccontextmanager
async def closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    try:
        yield
    except asyncio.CancelledError:
        writer.transport.abort()
        raise
    finally:
        writer.close()
        await closed(writer)


async def closed(writer: asyncio.StreamWriter) -> None:
    """TLS takes leave of its peer before the socket is closed, and the test may end before that."""
    try:
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    except asyncio.CancelledError:
        writer.transport.abort()
        raise
