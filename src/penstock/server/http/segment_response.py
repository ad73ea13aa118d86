"""The answer to a bulk read: a part of a segment's file, sent by the kernel where it can."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Final

from starlette.responses import Response

from penstock.server.http.protocol import protocol_of
from penstock.storage.memory_disk import MemoryDisk

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from penstock.node.node import Node
    from penstock.server.http.line import BrokerLine
    from penstock.server.http.ranges import Extent
    from penstock.server.http.stream_facts import SegmentFile

# A broker without a data directory copies this much at once on its loop: a tenth of a millisecond.
COPIED_BYTES: Final = 512 * 1024


class SegmentResponse(Response):
    """Bytes of a file in the data directory if `file` is given, otherwise of the broker's
    memory.
    """

    media_type = "application/octet-stream"

    def __init__(
        self, segment: SegmentFile, extent: Extent, line: BrokerLine, file: BinaryIO | None
    ) -> None:
        self.status_code = 206 if extent.is_partial else 200
        self.background = None
        self.body = b""
        self._segment = segment
        self._extent = extent
        self._line = line
        self._file = file
        headers = {
            "accept-ranges": "bytes",
            "content-length": str(extent.count),
            "etag": etag(segment),
            "cache-control": "no-transform",
        }
        if extent.is_partial:
            headers["content-range"] = extent.content_range(segment.size)
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send(
                {
                    "type": "http.response.start",
                    "status": self.status_code,
                    "headers": self.raw_headers,
                }
            )
            if scope["method"] != "HEAD" and not await self._send_octets(scope, send):
                return
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            if self._file is not None:
                self._file.close()

    async def _send_octets(self, scope: Scope, send: Send) -> bool:
        start = self._extent.start
        count = self._extent.count
        if self._file is not None:
            return await protocol_of(scope).send_file(self._file, start, count)
        end = start + count
        while start < end:
            octets = await self._line.ask(
                lambda node, _, at=start: copied(node, self._segment.name, at, end)  # type: ignore[misc]
            )
            if not octets:
                # Retention has removed it meanwhile.
                await protocol_of(scope).give_up()
                return False
            await send({"type": "http.response.body", "body": octets, "more_body": True})
            start += len(octets)
        return True


def etag(segment: SegmentFile) -> str:
    """It identifies the file, not its length: content that was readable once never changes."""
    return f'"{segment.identity}"'


def copied(node: Node, name: str, start: int, end: int) -> bytes:
    """On the broker's loop: some octets of a file in memory; none when it is gone."""
    disk = node.state.streams.disk
    assert isinstance(disk, MemoryDisk), "files on disk are opened"
    file = disk.files.get(name)
    return b"" if file is None else file.read(start, min(COPIED_BYTES, end - start))
