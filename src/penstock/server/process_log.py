"""The log of this process, whose level and format can change while it runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.server.log_lines import configure

if TYPE_CHECKING:
    from typing import TextIO

    from penstock.server.log_file import LogFile
    from penstock.server.log_settings import LogConfiguration


class ProcessLog:
    """Held by the server, if the process writes a log."""

    def __init__(self, configuration: LogConfiguration, file: LogFile | TextIO) -> None:
        self.configuration = configuration
        self._file = file
        configure(configuration, file)

    def change(self, configuration: LogConfiguration) -> None:
        self.configuration = configuration
        configure(configuration, self._file)

    def set_level(self, level: str) -> None:
        self.change(replace(self.configuration, level=level))
