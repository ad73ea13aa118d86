"""Virtual hosts: add, describe and delete them, and who may use them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.state import EVERYTHING
from penstock.broker.topology import AddVhost, DeleteVhost, SetPermissions
from penstock.server.http.api.changes import changed
from penstock.server.http.api.operation import ADMINISTRATOR, NO_CONTENT, Created, Operation
from penstock.server.http.api.schema import FLAG, TEXT, object_of, text_of

if TYPE_CHECKING:
    from penstock.server.http.api.changes import ChangeTurn
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine

_PATH = "/api/vhosts/{name}"
_BODY = object_of(
    {},
    {
        "description": TEXT,
        "tags": {"type": ["string", "array"], "items": TEXT},
        "default_queue_type": TEXT,
        "tracing": FLAG,
    },
)


class VhostChanges:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "PUT",
                _PATH,
                self.put,
                "Add a virtual host, or describe one anew. Keys that are not given stay as they "
                "are. Whoever adds it gets all permissions in it. `tracing` has no effect.",
                "vhosts",
                allowed=ADMINISTRATOR,
                body=_BODY,
                is_body_optional=True,
            ),
            Operation(
                "DELETE",
                _PATH,
                self.delete,
                "Delete a virtual host with everything in it",
                "vhosts",
                allowed=ADMINISTRATOR,
            ),
        ]

    async def put(self, call: ApiRequest) -> object:
        name = call.named("name")
        body = call.body

        def put(turn: ChangeTurn) -> Created:
            known = turn.node.state.vhosts.get(name)
            command = AddVhost(
                name,
                text_of(body, "description", known.description if known else ""),
                tags_of(body["tags"]) if "tags" in body else (known.tags if known else ()),
                _queue_type(body, known.default_queue_type if known else ""),
            )
            turn.apply(command)
            if known is None and turn.caller.grant is None:
                # Who has come with a token has the permissions of that, and is not in the table.
                turn.apply(SetPermissions(turn.user, name, EVERYTHING, EVERYTHING, EVERYTHING))
            return Created(known is None)

        return await changed(self._line, call, put)

    async def delete(self, call: ApiRequest) -> object:
        name = call.named("name")
        await changed(self._line, call, lambda turn: turn.apply(DeleteVhost(name)))
        return NO_CONTENT


def tags_of(value: object) -> tuple[str, ...]:
    """A list of words, or words with commas between them."""
    words = value.split(",") if isinstance(value, str) else value
    assert isinstance(words, list), "the body was checked"
    stripped = [str(word).strip() for word in words]
    return tuple(word for word in stripped if word)


def _queue_type(body: dict[str, object], known: str) -> str:
    """`undefined` is what RabbitMQ shows where none is set."""
    found = text_of(body, "default_queue_type", known)
    return "" if found == "undefined" else found
