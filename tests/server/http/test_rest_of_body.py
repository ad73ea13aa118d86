"""The rest of a request that was answered early: dropped, and the client may be gone already."""

import asyncio
import errno

from penstock.server.http.rest_of_body import DROPPED_BYTES_MAX, RestOfBody


class OpenTransport(asyncio.Transport):
    """Notes what is done with it."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.done.append("eof")

    def abort(self) -> None:
        self.done.append("abort")


class GoneTransport(OpenTransport):
    """Its peer has left, which the event loop has not heard of yet."""

    def write_eof(self) -> None:
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")


async def rest_of(transport: OpenTransport) -> RestOfBody:
    return RestOfBody(transport, asyncio.get_running_loop())


def test_this_side_is_closed_and_what_comes_is_dropped_up_to_a_limit() -> None:
    transport = OpenTransport()
    rest = asyncio.run(rest_of(transport))
    rest.drop(DROPPED_BYTES_MAX)
    assert transport.done == ["eof"]
    rest.drop(1)
    assert transport.done == ["eof", "abort"]
    rest.end()


def test_a_client_that_is_gone_ends_the_connection_and_raises_nothing() -> None:
    transport = GoneTransport()
    rest = asyncio.run(rest_of(transport))
    assert transport.done == ["abort"]
    rest.end()
