"""A command that has started others ends them when it is told to end."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

# What a shell shows of a program that a signal has ended.
CODE_OF_SIGNALS: Final = 128


@contextmanager
def exit_when_terminated() -> Iterator[None]:
    """SIGTERM ends the command as Ctrl-C does: what it holds is closed on the way."""
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    del frame
    raise SystemExit(CODE_OF_SIGNALS + number)
