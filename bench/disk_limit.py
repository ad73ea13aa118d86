"""What the disk allows: three files that grow at the same time, each flushed after every write."""

import dataclasses
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

# As many as a cluster has servers.
WRITERS: Final = 3

# What one flush of a journal has at saturation: about a thousand messages of a hundred bytes, and
# about two hundred of a thousand.
FLUSH_BYTES: Final = 256 << 10

# Long enough for hundreds of flushes on a disk that is suitable for a broker.
SECONDS: Final = 1.5


@dataclasses.dataclass(frozen=True, slots=True)
class DiskLimit:
    """Of all files together."""

    flushes_per_second: float
    bytes_per_second: float

    def messages_per_second(self, disk_bytes_each: float) -> float:
        """The most that the disk could take, if a message needs this many bytes on all servers
        together.
        """
        return self.bytes_per_second / max(1.0, disk_bytes_each)


def measure_disk(seconds: float = SECONDS, flush_bytes: int = FLUSH_BYTES) -> DiskLimit:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-disk-") as folder:
        counts = [0] * WRITERS
        started = time.perf_counter()
        until = started + seconds
        threads = [
            threading.Thread(
                target=_write, args=(Path(folder) / str(each), until, counts, each, flush_bytes)
            )
            for each in range(WRITERS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        passed = time.perf_counter() - started
    flushes = sum(counts) / passed
    return DiskLimit(flushes, flushes * flush_bytes)


def _write(path: Path, until: float, counts: list[int], index: int, flush_bytes: int) -> None:
    """Writing and flushing release the interpreter's lock, so that the three do not wait for one
    another.
    """
    octets = os.urandom(flush_bytes)
    with path.open("wb", buffering=0) as file:
        while time.perf_counter() < until:
            file.write(octets)
            os.fdatasync(file.fileno())
            counts[index] += 1
