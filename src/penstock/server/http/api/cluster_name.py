"""The name of the cluster: PUT of /api/cluster-name. As in RabbitMQ it is a global parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.parameters import CLUSTER_NAME, CLUSTER_NAME_BYTES_MAX, is_cluster_name
from penstock.broker.topology import SetGlobalParameter
from penstock.server.http.api.changes import changed
from penstock.server.http.api.operation import ADMINISTRATOR, NO_CONTENT, Operation
from penstock.server.http.api.schema import TEXT, object_of, text_of
from penstock.server.http.problems import Problem

if TYPE_CHECKING:
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine


class ClusterName:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "PUT",
                "/api/cluster-name",
                self.put,
                "Set the name of the cluster",
                "overview",
                allowed=ADMINISTRATOR,
                body=object_of({"name": TEXT}),
            )
        ]

    async def put(self, call: ApiRequest) -> object:
        name = text_of(call.body, "name")
        if not is_cluster_name(name):
            raise Problem(
                400, f"'name' must be a text of 1 to {CLUSTER_NAME_BYTES_MAX} bytes of UTF-8"
            )
        command = SetGlobalParameter(CLUSTER_NAME, name)
        await changed(self._line, call, lambda turn: turn.apply(command))
        return NO_CONTENT
