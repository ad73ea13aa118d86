"""A command that has started other processes ends them when it is terminated."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

# The exit code that a shell shows for a program that was ended by a signal.
CODE_OF_SIGNALS: Final = 128


@contextmanager
def exit_when_terminated() -> Iterator[None]:
    """SIGTERM ends the command like Ctrl-C: its resources are closed first."""
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    del frame
    raise SystemExit(CODE_OF_SIGNALS + number)
