"""The disk alarm: when it is looked at."""

import asyncio
from pathlib import Path

from penstock.server.launch import start
from penstock.server.server_configuration import ServerConfiguration

# More than any disk has.
MORE_THAN_THERE_IS = 1 << 60


def test_a_disk_that_is_full_already_blocks_the_very_first_publisher(tmp_path: Path) -> None:
    async def alarm_after_start() -> str:
        configuration = ServerConfiguration(
            port=0, data=tmp_path / "data", disk_bytes_min=MORE_THAN_THERE_IS
        )
        running = await start(configuration)
        # Nobody was accepted yet: the loop has not run since it listens.
        alarm = running.node.container.alarm
        await running.stop()
        return alarm

    assert asyncio.run(alarm_after_start()) == "low on disk"
