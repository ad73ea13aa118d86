"""Who asks: /api/whoami."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.server.http.api.operation import ANYBODY, Operation
from penstock.server.http.api.schema import TEXT, list_of, object_of

if TYPE_CHECKING:
    from penstock.server.http.api.operation import ApiRequest


class WhoAmI:
    """Held by the table of operations."""

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "GET",
                "/api/whoami",
                self.show,
                "The user who asks",
                "users",
                allowed=ANYBODY,
                answer=object_of({"name": TEXT, "tags": list_of(TEXT)}),
            )
        ]

    async def show(self, call: ApiRequest) -> object:
        return {"name": call.caller.name, "tags": list(call.caller.tags)}
