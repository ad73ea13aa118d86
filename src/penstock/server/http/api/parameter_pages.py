"""Parameters of virtual hosts and global ones: /api/parameters and /api/global-parameters.

Limits of virtual hosts are parameters of the component `vhost-limits`, as in RabbitMQ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.errors import PreconditionFailed
from penstock.broker.parameters import LIMITS_COMPONENT, LIMITS_NAME
from penstock.broker.queues.following import REPLICA_COMPONENT
from penstock.broker.topology import (
    ClearGlobalParameter,
    ClearParameter,
    SetGlobalParameter,
    SetParameter,
)
from penstock.server.http.api.changes import changed
from penstock.server.http.api.limit_pages import vhost_limits_row
from penstock.server.http.api.operation import (
    ADMINISTRATOR,
    NO_CONTENT,
    POLICYMAKER,
    Created,
    Operation,
    RowList,
)
from penstock.server.http.api.schema import ANYTHING, TEXT, object_of
from penstock.server.http.api.visibility import visible_vhosts
from penstock.server.http.problems import Problem
from penstock.server.http.stream_facts import STEP_COUNT

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.broker.vhost import VirtualHost
    from penstock.node.node import Node
    from penstock.server.http.api.changes import ChangeTurn
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine
    from penstock.server.http.login import Caller

Row = dict[str, object]

_ROW: Final = object_of({"value": ANYTHING, "vhost": TEXT, "component": TEXT, "name": TEXT})
_GLOBAL_ROW: Final = object_of({"name": TEXT, "value": ANYTHING})
_BODY: Final = object_of({"value": ANYTHING})
_PATH: Final = "/api/parameters/{component}/{vhost}/{name}"
_GLOBAL_PATH: Final = "/api/global-parameters/{name}"


class ParameterPages:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        return [
            *(
                Operation(
                    "GET", path, self.list, summary, "parameters",
                    allowed=POLICYMAKER, answer=_ROW, is_list=True,
                )
                for path, summary in (
                    ("/api/parameters", "All parameters"),
                    ("/api/parameters/{component}", "The parameters of a component"),
                    (
                        "/api/parameters/{component}/{vhost}",
                        "The parameters of a component in a virtual host",
                    ),
                )
            ),
            Operation(
                "GET", _PATH, self.show, "A parameter", "parameters",
                allowed=POLICYMAKER, answer=_ROW,
            ),
            Operation(
                "PUT", _PATH, self.put, "Set a parameter", "parameters",
                allowed=POLICYMAKER, body=_BODY,
            ),
            Operation(
                "DELETE", _PATH, self.delete, "Clear a parameter", "parameters",
                allowed=POLICYMAKER,
            ),
        ]  # fmt: skip

    async def list(self, call: ApiRequest) -> object:
        parts = call.request.path_params
        component = call.named("component") if "component" in parts else None
        vhost = call.named("vhost") if "vhost" in parts else ""
        return RowList(
            await self._line.walk(lambda node: _rows(node, call.caller, component, vhost))
        )

    async def show(self, call: ApiRequest) -> object:
        component, vhost, name = _named(call)

        def row(node: Node, now: int) -> Row:
            del now
            for found in parameters_of(visible_vhosts(node, call.caller, vhost)[0]):
                if found["component"] == component and found["name"] == name:
                    return found
            raise _no_parameter(component, vhost, name)

        return await self._line.ask(row)

    async def put(self, call: ApiRequest) -> object:
        component, vhost, name = _named(call)
        value = call.body["value"]

        def put(turn: ChangeTurn) -> Created:
            entered = turn.enter_as_policymaker(vhost)
            is_new = not _is_there(entered, component, name)
            try:
                turn.apply_in(vhost, SetParameter(component, name, value))
            except PreconditionFailed as refusal:
                raise invalid(refusal) from None
            return Created(is_new)

        _check_operator(call, component)
        return await changed(self._line, call, put)

    async def delete(self, call: ApiRequest) -> object:
        component, vhost, name = _named(call)

        def delete(turn: ChangeTurn) -> None:
            entered = turn.enter_as_policymaker(vhost)
            if not _is_there(entered, component, name):
                raise _no_parameter(component, vhost, name)
            turn.apply_in(vhost, ClearParameter(component, name))

        _check_operator(call, component)
        await changed(self._line, call, delete)
        return NO_CONTENT


class GlobalParameterPages:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "GET", "/api/global-parameters", self.list, "All global parameters", "parameters",
                allowed=POLICYMAKER, answer=_GLOBAL_ROW, is_list=True,
            ),
            Operation(
                "GET", _GLOBAL_PATH, self.show, "A global parameter", "parameters",
                allowed=POLICYMAKER, answer=_GLOBAL_ROW,
            ),
            Operation(
                "PUT", _GLOBAL_PATH, self.put, "Set a global parameter", "parameters",
                allowed=ADMINISTRATOR, body=_BODY,
            ),
            Operation(
                "DELETE", _GLOBAL_PATH, self.delete, "Clear a global parameter", "parameters",
                allowed=ADMINISTRATOR,
            ),
        ]  # fmt: skip

    async def list(self, call: ApiRequest) -> object:
        del call
        found = await self._line.ask(lambda node, now: dict(node.state.global_parameters))
        return RowList([{"name": name, "value": found[name]} for name in sorted(found)])

    async def show(self, call: ApiRequest) -> object:
        name = call.named("name")

        def row(node: Node, now: int) -> Row:
            del now
            if name not in node.state.global_parameters:
                raise Problem(404, f"no global parameter '{name}'")
            return {"name": name, "value": node.state.global_parameters[name]}

        return await self._line.ask(row)

    async def put(self, call: ApiRequest) -> object:
        name, value = call.named("name"), call.body["value"]

        def put(turn: ChangeTurn) -> Created:
            is_new = name not in turn.node.state.global_parameters
            turn.apply(SetGlobalParameter(name, value))
            return Created(is_new)

        return await changed(self._line, call, put)

    async def delete(self, call: ApiRequest) -> object:
        name = call.named("name")
        await changed(self._line, call, lambda turn: turn.apply(ClearGlobalParameter(name)))
        return NO_CONTENT


def invalid(refusal: PreconditionFailed) -> Problem:
    """With RabbitMQ's words in front, which tools look for."""
    return Problem(400, f"Validation failed\n\n{refusal.text}\n")


def parameters_of(vhost: VirtualHost) -> list[Row]:
    found: dict[tuple[str, str], object] = dict(vhost.parameters)
    limits = vhost_limits_row(vhost)
    if limits:
        found[(LIMITS_COMPONENT, LIMITS_NAME)] = limits
    return [
        {"value": found[key], "vhost": vhost.name, "component": key[0], "name": key[1]}
        for key in sorted(found)
    ]


def _check_operator(call: ApiRequest, component: str) -> None:
    """What only an administrator may do, only an administrator may do as a parameter too."""
    if component in _OPERATORS:
        call.caller.need_one_of(ADMINISTRATOR)


_OPERATORS: Final = frozenset({LIMITS_COMPONENT, "operator_policy", REPLICA_COMPONENT})


def _named(call: ApiRequest) -> tuple[str, str, str]:
    return call.named("component"), call.named("vhost"), call.named("name")


def _no_parameter(component: str, vhost: str, name: str) -> Problem:
    return Problem(404, f"no parameter '{name}' of component '{component}' in vhost '{vhost}'")


def _is_there(vhost: VirtualHost, component: str, name: str) -> bool:
    if component == LIMITS_COMPONENT:
        return bool(vhost_limits_row(vhost)) and name == LIMITS_NAME
    if component == "operator_policy":
        return any(policy.name == name for policy in vhost.operator_policies.listed())
    return (component, name) in vhost.parameters


def _rows(
    node: Node, caller: Caller, component: str | None, vhost: str
) -> Generator[None, None, list[Row]]:
    rows: list[Row] = []
    count = 0
    for found in visible_vhosts(node, caller, vhost):
        for row in parameters_of(found):
            if component in {None, row["component"]}:
                rows.append(row)
            count += 1
            if count % STEP_COUNT == 0:
                yield
    return rows
