"""What the broker writes to its log: /api/log-level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from penstock.server.http.api.operation import ADMINISTRATOR, NO_CONTENT, Operation
from penstock.server.http.api.schema import object_of, one_of
from penstock.server.http.login import peer_of, port_of
from penstock.server.http.problems import Problem
from penstock.server.log_settings import LogLevel

if TYPE_CHECKING:
    from penstock.node.node import Node
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine
    from penstock.server.process_log import ProcessLog

log = structlog.get_logger()

_LEVELS: Final = [level.value for level in LogLevel]
_BODY: Final = object_of({"level": one_of(*_LEVELS)})


class LogLevelPages:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        path = "/api/log-level"
        return [
            Operation(
                "GET",
                path,
                self.show,
                "The least severe level that is logged",
                "log",
                allowed=ADMINISTRATOR,
                answer=_BODY,
            ),
            Operation(
                "PUT",
                path,
                self.set,
                "Set the log level, until the configuration is reloaded or the broker stops",
                "log",
                allowed=ADMINISTRATOR,
                body=_BODY,
            ),
        ]

    async def show(self, call: ApiRequest) -> object:
        del call
        return {"level": self._log().configuration.level}

    async def set(self, call: ApiRequest) -> object:
        process_log, level = self._log(), str(call.body["level"])
        host, port = peer_of(call.request)[0], port_of(call.request)
        user = call.caller.name

        def apply(node: Node, now: int) -> object:
            del node, now
            # The line about it is written with whichever level lets it pass.
            is_stricter = _LEVELS.index(level) > _LEVELS.index(process_log.configuration.level)
            if not is_stricter:
                process_log.set_level(level)
            log.info("log level set", to=level, by=user, peer=f"{host}:{port}", door="HTTP")
            process_log.set_level(level)
            return NO_CONTENT

        return await self._line.ask(apply)

    def _log(self) -> ProcessLog:
        process_log = self._line.server.process_log
        if process_log is None:
            raise Problem(404, "this broker runs inside a program and does not write a log")
        return process_log
