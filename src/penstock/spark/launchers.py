"""Small shell scripts that wrap a program and change the arguments that Spark starts it with.

Spark has no setting for everything it passes to the Java and the Python processes it starts, but it
can be told which program to start.
"""

from __future__ import annotations

import os
import tempfile
import zlib
from pathlib import Path


def written_launcher(program: str, target: Path, text: str) -> Path:
    """A folder with the script `bin/PROGRAM`, the same folder for every caller with the same
    target.
    """
    name = f"{program}-{zlib.crc32(str(target).encode()):08x}"
    try:
        return _written(_cache_folder() / name, program, text)
    except OSError:
        # The home directory cannot be written to, or there is none.
        return _written(Path(tempfile.mkdtemp(prefix=f"penstock-{program}-")), program, text)


def _cache_folder() -> Path:
    chosen = os.environ.get("XDG_CACHE_HOME")
    return (Path(chosen) if chosen else Path.home() / ".cache") / "penstock"


def _written(home: Path, program: str, text: str) -> Path:
    script = home / "bin" / program
    if script.is_file() and script.read_text(encoding="utf-8") == text:
        return home
    script.parent.mkdir(parents=True, exist_ok=True)
    # Replaced atomically: another process may be starting Spark with it.
    written = script.with_name(f"{program}-{os.getpid()}")
    written.write_text(text, encoding="utf-8")
    written.chmod(0o755)
    written.replace(script)
    return home
