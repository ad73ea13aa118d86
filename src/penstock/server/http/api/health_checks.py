"""RabbitMQ's health checks: /api/health/checks. 200 when a check passes, 503 when it does not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from penstock.server.http.api.operation import Operation
from penstock.server.http.api.schema import TEXT, object_of
from penstock.server.http.problems import JsonAnswer, Problem

if TYPE_CHECKING:
    from datetime import datetime

    from starlette.requests import Request

    from penstock.node.node import Node
    from penstock.server.http.api.listing import Row
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine
    from penstock.server.tls import TlsListener

_START: Final = "/api/health/checks"
_ANSWER: Final = object_of({"status": TEXT}, {"reason": TEXT})
_ALONE: Final = {"status": "ok", "reason": "single node cluster"}
_UNIT_DAYS: Final = {"days": 1.0, "weeks": 7.0, "months": 365 / 12, "years": 365.0}
_DAY_SECONDS: Final = 86_400
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
        """Of those that the listeners use, and of the authorities whose clients they let in."""
        within = call.named("within")
        if not (within.isascii() and within.isdigit() and len(within) <= 9):
            raise Problem(400, "Invalid expiration value.")
        days = _UNIT_DAYS.get(call.named("unit").lower())
        if days is None:
            raise Problem(
                400,
                "Time unit not recognised. Supported units: days, weeks, months, years.",
            )
        until = time.time() + int(within) * days * _DAY_SECONDS

        def expiring(node: Node, now: int) -> list[Row]:
            del now
            name = node.configuration.cluster_name
            return [
                {"node": name, **row}
                for listener in self._line.server.tls_listeners
                for row in _expiring(listener, until)
            ]

        expired = await self._line.ask(expiring)
        if not expired:
            return {"status": "ok"}
        return _failed("Certificates expiring", {"expired": expired})

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


def _expiring(listener: TlsListener, until: float) -> list[Row]:
    """A row for each of its addresses when something expires before."""
    dates = listener.certificates.dates
    own = _dates_before(dates.expirations, until)
    authority = _dates_before(dates.authority_expirations, until)
    if not own and not authority:
        return []
    return [
        {
            "protocol": listener.protocol,
            "interface": host,
            "port": port,
            "certfile": dates.file,
            "certfile_expires_on": own,
            "cacertfile": dates.authority_file,
            "cacertfile_expires_on": authority,
        }
        for host, port in listener.addresses
    ]


def _dates_before(expirations: list[datetime | None], until: float) -> list[str]:
    """In RabbitMQ's form. One that is not known may be any day."""
    return [
        "unknown" if date is None else f"{date:%Y-%m-%d} {date.hour}:{date:%M:%S}"
        for date in expirations
        if date is None or date.timestamp() < until
    ]


def _own_port(request: Request) -> set[int]:
    """Of the HTTP listener that the request came to."""
    server = request.scope.get("server")
    return {server[1]} if server and server[1] else set()


def _failed(reason: str, facts: dict[str, object]) -> JsonAnswer:
    return JsonAnswer({"status": "failed", "reason": reason, **facts}, 503)
