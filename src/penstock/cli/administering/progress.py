"""Progress of long work, on standard error and only for a person: one line that is written over."""

from __future__ import annotations

import sys
from typing import Final

from penstock.cli.administering.tables import visible

_ERASE: Final = "\r\033[K"


class Progress:
    """Held by a command that takes long. Says nothing where nobody looks."""

    def __init__(self, is_wanted: bool = True) -> None:
        self._is_shown = is_wanted and sys.stderr.isatty()

    def tell(self, text: str) -> None:
        if self._is_shown:
            sys.stderr.write(f"{_ERASE}{visible(text)}")
            sys.stderr.flush()

    def end(self) -> None:
        if self._is_shown:
            sys.stderr.write(_ERASE)
            sys.stderr.flush()
