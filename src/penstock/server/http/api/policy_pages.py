"""Policies and operator policies: /api/policies and /api/operator-policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.errors import PreconditionFailed
from penstock.broker.topology import (
    ClearOperatorPolicy,
    ClearPolicy,
    SetOperatorPolicy,
    SetPolicy,
)
from penstock.server.http.api.changes import changed
from penstock.server.http.api.operation import (
    ADMINISTRATOR,
    MANAGEMENT,
    NO_CONTENT,
    POLICYMAKER,
    Created,
    Operation,
    RowList,
)
from penstock.server.http.api.parameter_pages import invalid
from penstock.server.http.api.schema import (
    INTEGER,
    TABLE,
    TEXT,
    integer_of,
    object_of,
    text_of,
)
from penstock.server.http.api.visibility import visible_vhosts
from penstock.server.http.problems import Problem

if TYPE_CHECKING:
    from penstock.broker.policy import Policies, Policy
    from penstock.broker.vhost import VirtualHost
    from penstock.node.node import Node
    from penstock.server.http.api.changes import ChangeTurn
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine

Row = dict[str, object]

_ROW: Final = object_of(
    {
        "vhost": TEXT,
        "name": TEXT,
        "pattern": TEXT,
        "apply-to": TEXT,
        "definition": TABLE,
        "priority": INTEGER,
    }
)
_BODY: Final = object_of(
    {"pattern": TEXT, "definition": TABLE}, {"priority": INTEGER, "apply-to": TEXT}
)


class PolicyPages:
    """Of policies, or of operator policies. Held by the table of operations."""

    def __init__(self, line: BrokerLine, is_operator: bool) -> None:
        self._line = line
        self._is_operator = is_operator
        self._what = "operator policy" if is_operator else "policy"

    def operations(self) -> list[Operation]:
        start = "/api/operator-policies" if self._is_operator else "/api/policies"
        one = f"{start}/{{vhost}}/{{name}}"
        many = "operator policies" if self._is_operator else "policies"
        changers = ADMINISTRATOR if self._is_operator else POLICYMAKER
        return [
            *(
                Operation(
                    "GET", path, self.list, summary, "policies",
                    allowed=MANAGEMENT, answer=_ROW, is_list=True,
                )
                for path, summary in (
                    (start, f"All {many}"),
                    (f"{start}/{{vhost}}", f"The {many} of a virtual host"),
                )
            ),
            Operation(
                "GET", one, self.show, f"One of the {many}", "policies",
                allowed=MANAGEMENT, answer=_ROW,
            ),
            Operation(
                "PUT", one, self.put, f"Set one of the {many}", "policies",
                allowed=changers, body=_BODY,
            ),
            Operation(
                "DELETE", one, self.delete, f"Clear one of the {many}", "policies",
                allowed=changers,
            ),
        ]  # fmt: skip

    async def list(self, call: ApiRequest) -> object:
        vhost = call.named("vhost") if "vhost" in call.request.path_params else ""

        def rows(node: Node, now: int) -> list[Row]:
            del now
            return [
                _row(found.name, policy)
                for found in visible_vhosts(node, call.caller, vhost)
                for policy in self._policies(found).listed()
            ]

        return RowList(await self._line.ask(rows))

    async def show(self, call: ApiRequest) -> object:
        vhost, name = call.named("vhost"), call.named("name")

        def row(node: Node, now: int) -> Row:
            del now
            for policy in self._policies(visible_vhosts(node, call.caller, vhost)[0]).listed():
                if policy.name == name:
                    return _row(vhost, policy)
            raise Problem(404, f"no {self._what} '{name}' in vhost '{vhost}'")

        return await self._line.ask(row)

    async def put(self, call: ApiRequest) -> object:
        vhost, name = call.named("vhost"), call.named("name")
        body = call.body
        definition = body["definition"]
        assert isinstance(definition, dict), "the body was checked"
        kind = SetOperatorPolicy if self._is_operator else SetPolicy
        command = kind(
            name,
            text_of(body, "pattern"),
            definition,
            text_of(body, "apply-to", "all"),
            integer_of(body, "priority"),
        )

        def put(turn: ChangeTurn) -> Created:
            entered = turn.enter_as_policymaker(vhost)
            is_new = all(policy.name != name for policy in self._policies(entered).listed())
            try:
                turn.apply_in(vhost, command)
            except PreconditionFailed as refusal:
                raise invalid(refusal) from None
            return Created(is_new)

        return await changed(self._line, call, put)

    async def delete(self, call: ApiRequest) -> object:
        vhost, name = call.named("vhost"), call.named("name")
        command = ClearOperatorPolicy(name) if self._is_operator else ClearPolicy(name)

        def delete(turn: ChangeTurn) -> None:
            turn.enter_as_policymaker(vhost)
            turn.apply_in(vhost, command)

        await changed(self._line, call, delete)
        return NO_CONTENT

    def _policies(self, vhost: VirtualHost) -> Policies:
        return vhost.operator_policies if self._is_operator else vhost.policies


def _row(vhost: str, policy: Policy) -> Row:
    return {
        "vhost": vhost,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to.value,
        "definition": policy.definition,
        "priority": policy.priority,
    }
