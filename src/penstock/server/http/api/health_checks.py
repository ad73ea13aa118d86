"""RabbitMQ's health checks: /api/health/checks. 200 when a check passes, 503 when it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.server.http.api.operation import Operation
from penstock.server.http.api.schema import TEXT, object_of
from penstock.server.http.problems import JsonAnswer, Problem

if TYPE_CHECKING:
    from starlette.requests import Request

    from penstock.node.node import Node
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine

_START: Final = "/api/health/checks"
_ANSWER: Final = object_of({"status": TEXT}, {"reason": TEXT})
_ALONE: Final = {"status": "ok", "reason": "single node cluster"}
_UNITS: Final = ("days", "weeks", "months", "years")
_PORT_MAX: Final = 65_535
# What RabbitMQ calls the protocols that are spoken here.
_AMQP: Final = frozenset({"amqp", "amqp091", "amqp0.9.1", "amqp0-9-1", "amqp10", "amqp1.0"})


class HealthChecks:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        checks = (
            ("alarms", self.alarms, "No alarm of memory or disk is in effect"),
            ("local-alarms", self.alarms, "No alarm of memory or disk is in effect on this node"),
            (
                "certificate-expiration/{within}/{unit}",
                self.certificates,
                "No certificate expires within this time; a unit is days, weeks, months or years",
            ),
            ("port-listener/{port}", self.port, "A listener has this port"),
            (
                "protocol-listener/{protocol}",
                self.protocol,
                "A listener speaks this protocol: amqp, amqp10, http, https",
            ),
            ("virtual-hosts", self.fine, "All virtual hosts run"),
            ("node-is-mirror-sync-critical", self.alone, "No mirror depends on this node"),
            ("node-is-quorum-critical", self.alone, "No quorum depends on this node"),
        )
        return [
            Operation(
                "GET",
                f"{_START}/{path}",
                page,
                f"{summary}; 503 if not",
                "health",
                answer=_ANSWER,
                failure=_ANSWER,
            )
            for path, page, summary in checks
        ]

    async def alarms(self, call: ApiRequest) -> object:
        del call

        def alarm(node: Node, now: int) -> tuple[str, str]:
            del now
            return node.container.alarm, node.configuration.cluster_name

        resource, name = await self._line.ask(alarm)
        if not resource:
            return {"status": "ok"}
        alarms = [{"node": name, "resource": resource}]
        return _failed("There are alarms in effect in the cluster", {"alarms": alarms})

    async def certificates(self, call: ApiRequest) -> object:
        """Nothing here knows when certificates expire."""
        within = call.named("within")
        if not (within.isascii() and within.isdigit() and len(within) <= 9):
            raise Problem(400, "Invalid expiration value.")
        if call.named("unit") not in _UNITS:
            raise Problem(
                400,
                "Time unit not recognised. Supported units: days, weeks, months, years.",
            )
        return {"status": "ok"}

    async def port(self, call: ApiRequest) -> object:
        text = call.named("port")
        if not (text.isascii() and text.isdigit() and len(text) <= 5) or int(text) > _PORT_MAX:
            raise Problem(400, "Invalid port")
        port = int(text)
        server = self._line.server
        listening = await self._line.ask(lambda node, now: server.ports())
        ports = sorted({*listening, *_own_port(call.request)})
        if port in ports:
            return {"status": "ok", "port": port}
        return _failed("No active listener", {"missing": port, "ports": ports})

    async def protocol(self, call: ApiRequest) -> object:
        asked = call.named("protocol").lower()
        own = call.request.url.scheme
        spoken = ["amqp", own]
        if asked in _AMQP:
            return {"status": "ok", "protocol": "amqp"}
        if asked == own:
            return {"status": "ok", "protocol": own}
        return _failed("No active listener", {"missing": asked, "protocols": spoken})

    async def fine(self, call: ApiRequest) -> object:
        del call
        # Also shows that the broker's loop answers.
        await self._line.ask(lambda node, now: None)
        return {"status": "ok"}

    async def alone(self, call: ApiRequest) -> object:
        del call
        return dict(_ALONE)


def _own_port(request: Request) -> set[int]:
    """Of the HTTP listener that the request came to."""
    server = request.scope.get("server")
    return {server[1]} if server and server[1] else set()


def _failed(reason: str, facts: dict[str, object]) -> JsonAnswer:
    return JsonAnswer({"status": "failed", "reason": reason, **facts}, 503)
