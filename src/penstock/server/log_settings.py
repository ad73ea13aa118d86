"""The settings of the log. Light to import: every start of a broker reads it."""

from dataclasses import dataclass
from enum import Enum


class LogLevel(Enum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(Enum):
    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class LogConfiguration:
    """Held by the server's configuration."""

    level: str = "info"  # lines below it are not written
    format: str = "text"
