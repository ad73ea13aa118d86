"""A small disk for promises: files that grow, flushes that take their time, tails that tear."""

from collections.abc import Callable

from penstock.simulation.dice import Dice
from penstock.world.disk import AppendFile, Disk, FlushListener


class ToyFile(AppendFile):
    """Held by a toy disk."""

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.content: bytearray = bytearray()
        self.durable_size: int = 0
        # Whether its directory entry survives, and whether its removal was asked for.
        self.is_durable: bool = False
        self.is_removed: bool = False

    def size(self) -> int:
        return len(self.content)

    def append(self, data: bytes) -> int:
        self.content += data
        return len(self.content)

    def read(self, position: int, size: int) -> bytes:
        return bytes(self.content[position : position + size])

    def truncate(self, size: int) -> None:
        del self.content[size:]
        self.durable_size = min(self.durable_size, size)

    def close(self) -> None:
        pass


class ToyDisk(Disk):
    """Survives crashes of its server. `later` runs a function after the disk's latency, unless the
    server has crashed by then.
    """

    def __init__(self) -> None:
        self._files: dict[str, ToyFile] = {}
        self.later: Callable[[Callable[[int], None]], None] = _at_once

    def open(self, name: str) -> AppendFile:
        file = self._files.get(name)
        if file is None or file.is_removed:
            file = ToyFile(name)
            self._files[name] = file
        return file

    def names(self) -> list[str]:
        return sorted(name for name, file in self._files.items() if not file.is_removed)

    def remove(self, name: str) -> None:
        self._files[name].is_removed = True

    def flush(self, files: list[AppendFile], token: int, listener: FlushListener) -> None:
        sizes = [(file, file.size()) for file in files if isinstance(file, ToyFile)]
        self.later(ToyFlush(self, sizes, token, listener).done)

    def flush_now(self, files: list[AppendFile]) -> None:
        self.make_durable([(file, file.size()) for file in files if isinstance(file, ToyFile)])

    def make_durable(self, sizes: list[tuple[ToyFile, int]]) -> None:
        for file, size in sizes:
            file.durable_size = max(file.durable_size, min(size, file.size()))
            file.is_durable = True
        for name in [name for name, file in self._files.items() if file.is_removed]:
            del self._files[name]

    def free_bytes(self) -> int:
        return 1 << 40

    def crash(self, dice: Dice) -> None:
        """Lose what was not flushed, except for any prefix of it."""
        for name, file in list(self._files.items()):
            file.is_removed = False
            if not file.is_durable and dice.chance(0.5):
                del self._files[name]
                continue
            keep = dice.between(file.durable_size, file.size())
            del file.content[keep:]
            file.durable_size = keep
            file.is_durable = True


class ToyFlush:
    """One that is under way."""

    def __init__(
        self, disk: ToyDisk, sizes: list[tuple[ToyFile, int]], token: int, listener: FlushListener
    ) -> None:
        self._disk: ToyDisk = disk
        self._sizes: list[tuple[ToyFile, int]] = sizes
        self._token: int = token
        self._listener: FlushListener = listener

    def done(self, now: int) -> None:
        self._disk.make_durable(self._sizes)
        self._listener.flushed(self._token, now)


def _at_once(done: Callable[[int], None]) -> None:
    done(0)
