"""What replication costs without a broker: the least CPU time that three processes need for it.

    python -m bench.replication_floor

A root makes operations of the size and the number of messages that the case `replicated` has, writes each to a file,
sends it to two backups and flushes; a backup reads it, sums it up, writes it, flushes and answers eight octets. Nothing is
parsed, routed, confirmed or delivered, there is one thread per process, and buffers are reused. So a broker that
keeps the same promise cannot cost less than this on the same machine, and the figure says how much of the cost of a backup is the
kernel's: copying through a loopback socket and the page cache, and flushing.
"""

import argparse
import os
import resource
import socket
import tempfile
import time
from multiprocessing import Process, Queue
from pathlib import Path
from zlib import crc32

# Operations that are sent and not acknowledged: one is on its way while the next one is made.
UNDER_WAY_MAX = 2
ACK = b"\0" * 8
# As long as a segment of the journal; then the next file is begun, and the last one removed.
FILE_BYTES_MAX = 64 << 20
BACKUPS = 2


class GrowingFile:
    """Files that are begun one after the other, as segments are."""

    def __init__(self, folder: Path, bytes_max: int = FILE_BYTES_MAX) -> None:
        self._folder = folder
        self._bytes_max = bytes_max
        self._number = 0
        self._size = bytes_max
        self.descriptor = -1

    def write(self, data: bytes | bytearray) -> None:
        if self._size >= self._bytes_max:
            self._roll()
        self._size += os.write(self.descriptor, data)

    def flush(self) -> None:
        os.fdatasync(self.descriptor)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _roll(self) -> None:
        if self.descriptor >= 0:
            self.close()
            (self._folder / str(self._number)).unlink()
        self._number += 1
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self.descriptor = os.open(self._folder / str(self._number), flags, 0o600)
        self._size = 0


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def back_up(port: int, size: int, folder: Path, results: "Queue[float]") -> None:
    """One backup: until the root closes the line."""
    line = socket.create_connection(("127.0.0.1", port))
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    operation = bytearray(size)
    view = memoryview(operation)
    file = GrowingFile(folder)
    began = cpu_seconds()
    while True:
        at = 0
        while at < size:
            count = line.recv_into(view[at:])
            if not count:
                results.put(cpu_seconds() - began)
                file.close()
                line.close()
                return
            at += count
        crc32(operation)
        file.write(operation)
        file.flush()
        line.sendall(ACK)


def lead(lines: list[socket.socket], size: int, folder: Path, seconds: float) -> tuple[int, float]:
    """The root: how many operations it made, and its CPU seconds."""
    file = GrowingFile(folder)
    operation = os.urandom(size)
    made = 0
    committed = 0
    began = cpu_seconds()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if made - committed == UNDER_WAY_MAX:
            wait_for_acks(lines)
            committed += 1
        crc32(operation)
        file.write(operation)
        for line in lines:
            line.sendall(operation)
        file.flush()
        made += 1
    while committed < made:
        wait_for_acks(lines)
        committed += 1
    file.close()
    return made, cpu_seconds() - began


def wait_for_acks(lines: list[socket.socket]) -> None:
    for line in lines:
        missing = len(ACK)
        while missing:
            missing -= len(line.recv(missing))


def measure(size: int, seconds: float, folder: Path) -> tuple[int, float, float]:
    """Operations, CPU seconds of the root, and of one backup on average."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        results: Queue[float] = Queue()
        processes = []
        for number in range(BACKUPS):
            place = folder / f"backup-{number}"
            place.mkdir()
            arguments = (listener.getsockname()[1], size, place, results)
            processes.append(Process(target=back_up, args=arguments))
        for process in processes:
            process.start()
        lines = [listener.accept()[0] for _ in processes]
        for line in lines:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        place = folder / "root"
        place.mkdir()
        made, root = lead(lines, size, place, seconds)
        for line in lines:
            line.close()
        backup = sum(results.get() for _ in processes) / BACKUPS
        for process in processes:
            process.join()
    return made, root, backup


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="for each case")
    parser.add_argument(
        "--case",
        action="append",
        metavar="MESSAGES:OCTETS",
        help="messages of an operation and octets of each in the journal (450:197, 170:1100)",
    )
    options = parser.parse_args()
    for case in options.case or ["450:197", "900:197", "170:1100", "400:1100"]:
        messages, octets = (int(number) for number in case.split(":"))
        with tempfile.TemporaryDirectory(prefix="penstock-floor-") as folder:
            made, root, backup = measure(messages * octets, options.seconds, Path(folder))
        total = made * messages
        print(
            f"{messages} messages of {octets} octets: {total / options.seconds:,.0f} messages/s, CPU per message: "
            f"root {root / total * 1e6:.3f} us, backup {backup / total * 1e6:.3f} us"
        )


if __name__ == "__main__":
    main()
