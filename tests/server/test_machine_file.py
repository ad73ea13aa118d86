"""A file of the machine's disk: writes that take less than they were given."""

from __future__ import annotations

import asyncio
from pathlib import Path

from penstock.server.world.clock import MachineClock
from penstock.server.world.disk import MachineDisk
from penstock.server.world.machine_file import SystemCalls

WRITTEN_MAX = 3


class ShortCalls(SystemCalls):
    def write(self, descriptor: int, data: memoryview | bytes) -> int:
        return super().write(descriptor, data[:WRITTEN_MAX])


def test_a_short_write_is_continued(tmp_path: Path) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        disk = MachineDisk(tmp_path, MachineClock(), loop, calls=ShortCalls())
        file = disk.open("file")
        assert file.append(b"0123456789") == 10
        assert file.append_from(b"0123456789abcdef", 10) == 16
        assert file.read(0, 16) == b"0123456789abcdef"
        disk.close()
        assert (tmp_path / "file").read_bytes() == b"0123456789abcdef"

    asyncio.run(story())
