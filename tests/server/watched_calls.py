"""The system calls by which a real server makes things safe, seen from outside it."""

import shutil
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_name("watched_calls.c")


class Call:
    """One call that has returned."""

    def __init__(self, line: str) -> None:
        self.name, size, path = line.split(" ", 2)
        # The file's when the call began: so much it made safe.
        self.size = int(size)
        self.path = Path(path)


class WatchedCalls:
    """Held by one test. The server is started with its `environment`."""

    def __init__(self, folder: Path) -> None:
        library = folder / "watched_calls.so"
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        assert compiler is not None, "this test compiles a library: install a C compiler"
        command = [compiler, "-shared", "-fPIC", "-O1", str(_SOURCE), "-o", str(library), "-ldl"]
        subprocess.run(command, check=True)
        self._log = folder / "calls.txt"
        self._hold = folder / "hold"
        self._fail = folder / "fail"
        self.environment = {
            "LD_PRELOAD": str(library),
            "PENSTOCK_CALLS": str(self._log),
            "PENSTOCK_HOLD": str(self._hold),
            "PENSTOCK_FAIL": str(self._fail),
        }

    def hold_flushes(self) -> None:
        """No file is flushed from now on, until `let_go`."""
        self._hold.touch()

    def fail_flushes(self) -> None:
        """The disk answers with an error from now on, until `repair`."""
        self._fail.touch()

    def repair(self) -> None:
        self._fail.unlink()

    def let_go(self) -> None:
        self._hold.unlink()

    def calls(self) -> list[Call]:
        if not self._log.exists():
            return []
        return [Call(line) for line in self._log.read_text().splitlines()]

    def flushed(self, name: str) -> list[Path]:
        """What calls of this name have flushed, in order."""
        return [call.path for call in self.calls() if call.name == name]

    def flushed_size(self, path: Path) -> int:
        """How much of a file is safe."""
        sizes = [c.size for c in self.calls() if c.name == "fdatasync" and c.path == path]
        return max(sizes, default=0)
