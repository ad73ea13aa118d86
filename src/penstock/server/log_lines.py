"""The log of `penstock serve`: one line for one event, as text or as JSON, on standard error.

Invariants
- text from a client (a name, a reason) cannot begin a new line, nor control a terminal: everything
  but plain words is quoted, and every character that is not ASCII is escaped;
- values and tracebacks have a bounded length, and a traceback shows no values of variables: one of
  them may be a password;
- the same traceback is written once a minute, otherwise only its last line.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
import traceback
from typing import TYPE_CHECKING, Final, cast

import structlog

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from typing import Any, TextIO

    from penstock.server.log_file import LogFile
    from penstock.server.log_settings import LogConfiguration

# Of one value; a longer one is cut off, with a note of its length.
VALUE_LENGTH_MAX: Final = 300
# Of a traceback: the innermost frames of a deep one are what counts.
TRACEBACK_FRAMES_MAX: Final = 20
TRACEBACK_LENGTH_MAX: Final = 8_000
# How often the same traceback is written, and of how many this is remembered. Beyond it all are
# forgotten, and written once more.
TRACEBACK_SECONDS: Final = 60.0
TRACEBACKS_MAX: Final = 256

_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:/@+\-\[\]]+\Z")
_LEVEL_WIDTH: Final = 8
_TRACEBACK: Final = "Traceback (most recent call last):"


def configure(configuration: LogConfiguration, file: LogFile | TextIO) -> None:
    """For the whole process; called once by `serve`."""
    is_json = configuration.format == "json"
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            RareTracebacks(),
            _shortened,
            _json_line if is_json else _text_line,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_number_of(configuration.level)),
        # It implements the part of a file that is needed.
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", file)),
        cache_logger_on_first_use=False,
    )
    # Log records of libraries that use Python's own logging, mainly asyncio.
    logging.basicConfig(handlers=[LibraryLines()], level=logging.WARNING, force=True)


def _number_of(level: str) -> int:
    return logging.getLevelNamesMapping()[level.upper()]


class RareTracebacks:
    """A processor: an exception becomes a text of bounded size, and rarely more than its last line."""

    def __init__(self) -> None:
        self._written: dict[tuple[str, str, int], float] = {}

    def __call__(
        self, logger: object, method: str, line: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        del logger, method
        error = line.pop("exc_info", None)
        if error is True:
            error = sys.exc_info()[1]
        elif isinstance(error, tuple):
            error = error[1]
        if not isinstance(error, BaseException):
            return line
        last = "".join(traceback.format_exception_only(error)).strip()
        line["error"] = last
        if self._is_new(error):
            frames = traceback.format_tb(error.__traceback__, limit=-TRACEBACK_FRAMES_MAX)
            shown = "".join(frames)[-TRACEBACK_LENGTH_MAX:]
            line["traceback"] = f"{_TRACEBACK}\n{shown}{last[:VALUE_LENGTH_MAX]}"
        return line

    def _is_new(self, error: BaseException) -> bool:
        frames = traceback.extract_tb(error.__traceback__, limit=-1)
        place = (frames[0].filename, frames[0].lineno or 0) if frames else ("", 0)
        key = (type(error).__qualname__, *place)
        now = time.monotonic()
        if now - self._written.get(key, -TRACEBACK_SECONDS) < TRACEBACK_SECONDS:
            return False
        if len(self._written) >= TRACEBACKS_MAX:
            self._written.clear()
        self._written[key] = now
        return True


class LibraryLines(logging.Handler):
    """Records of Python's own logging as lines of the broker's log."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger()
        level = record.levelname.lower()
        write = getattr(log, level if level in {"error", "critical"} else "warning")
        try:
            message = record.getMessage()
        except (TypeError, ValueError):
            message = record.msg
        write("library message", library=record.name, message=message, exc_info=record.exc_info)


def _shortened(
    logger: object, method: str, line: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    del logger, method
    for key, value in line.items():
        if isinstance(value, str) and len(value) > VALUE_LENGTH_MAX and key != "traceback":
            line[key] = f"{value[:VALUE_LENGTH_MAX]}... ({len(value)} characters)"
    return line


def _json_line(logger: object, method: str, line: MutableMapping[str, Any]) -> str:
    del logger, method
    first = {"timestamp": line.pop("timestamp"), "level": line.pop("level")}
    return json.dumps({**first, **line}, default=str)


def _text_line(logger: object, method: str, line: MutableMapping[str, Any]) -> str:
    """2026-11-18T00:39:08.123456Z warning  login refused user=ann peer=192.0.2.7:40112 ..."""
    del logger, method
    shown = line.pop("traceback", "")
    head = f"{line.pop('timestamp')} {line.pop('level'):<{_LEVEL_WIDTH}} {line.pop('event')}"
    words = [head, *(f"{key}={_quoted(value)}" for key, value in line.items())]
    # Indented, so that no line of it looks like an event.
    lines = shown.encode("ascii", "backslashreplace").decode().splitlines()
    return "\n    ".join([" ".join(words), *lines])


def _quoted(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    return text if _PLAIN.match(text) else json.dumps(text)
