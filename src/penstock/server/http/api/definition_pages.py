"""Definitions of the whole broker or of one virtual host: /api/definitions.

An import is applied as a whole or not at all, also when the broker crashes in the middle. It is read
in a worker thread and rehearsed on the broker's loop in steps; only applying it is one step.
"""

from __future__ import annotations

from email.message import Message
from email.parser import BytesHeaderParser
from typing import TYPE_CHECKING, Final

import structlog
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse

from penstock.broker.definitions.parsing import DefinitionsRefused
from penstock.server.definition_files import StepwiseImport, exported_in_steps, prepare
from penstock.server.http.api.changes import actor_of
from penstock.server.http.api.json_pieces import json_in_pieces, object_from_pieces
from penstock.server.http.api.operation import (
    ADMINISTRATOR,
    NO_CONTENT,
    BodyPlaces,
    Operation,
    Query,
)
from penstock.server.http.api.pace import Pace
from penstock.server.http.api.pieces import answer_in_pieces
from penstock.server.http.api.schema import TABLE
from penstock.server.http.problems import Problem
from penstock.server.http.request_parts import body_of
from penstock.server.http.settings import (
    BODY_SECONDS,
    DEFINITIONS_AT_ONCE,
    DEFINITIONS_BYTES_MAX,
    DEFINITIONS_OF_USER,
    LARGE_BODY_BYTES_PER_SECOND,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response

    from penstock.broker.access.actor import Actor
    from penstock.broker.definitions.parsing import Definitions
    from penstock.node.node import Node
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine

log = structlog.get_logger()

_PATHS: Final = ("/api/definitions", "/api/definitions/{vhost}")
_MULTIPART: Final = "multipart/form-data"
_WHAT_TO_SEND: Final = "Send a JSON object with lists such as queues."
# In the part of a form that has the definitions; browsers upload files so.
_FILE: Final = "file"
# In what the audit line calls the file.
_ORIGIN: Final = "HTTP request"
# How many mistakes an answer lists; the rest is counted.
MISTAKES_SHOWN_MAX: Final = 100
# What was rehearsed is out of date when something was declared meanwhile. After so many times it is
# rehearsed in the same step that applies it, however long that takes.
REHEARSALS_MAX: Final = 3
# Hundreds of thousands of queues take their time, and an answer before that would be a wrong one.
IMPORT_SECONDS: Final = 300.0
# A form has a file and a redirect. More parts are refused; one with a longer head is left out.
PARTS_MAX: Final = 16
PART_HEAD_BYTES_MAX: Final = 8 * 1024
# Warnings that are logged of one import.
WARNINGS_LOGGED_MAX: Final = 100


class DefinitionPages:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        download = Query("download", "Have browsers save the answer under this name.")
        return [
            *(
                Operation(
                    "GET",
                    path,
                    self.export,
                    "Export definitions, as RabbitMQ does",
                    "definitions",
                    allowed=ADMINISTRATOR,
                    answer=TABLE,
                    queries=(download,),
                )
                for path in _PATHS
            ),
            *(
                Operation(
                    "POST",
                    path,
                    self.take_over,
                    "Import definitions: all of them, or none. The body is the JSON object that an "
                    "export has, or a form with it as `file`.",
                    "definitions",
                    allowed=ADMINISTRATOR,
                    body=TABLE,
                    reads_body=True,
                    body_types=("application/json", _MULTIPART),
                    body_bytes_max=DEFINITIONS_BYTES_MAX,
                    admission=self.admit,
                    places=BodyPlaces("definitions", DEFINITIONS_AT_ONCE, DEFINITIONS_OF_USER),
                )
                for path in _PATHS
            ),
        ]

    async def export(self, call: ApiRequest) -> object:
        vhost = _vhost_of(call)
        found = await self._line.walk(lambda node: exported_in_steps(node, vhost), IMPORT_SECONDS)
        return await run_in_threadpool(_answer, found, call.query("download"))

    async def admit(self, call: ApiRequest) -> None:
        vhost = _vhost_of(call)
        if vhost is not None:
            await self._line.ask(lambda node, now: node.state.vhost(vhost))

    async def take_over(self, call: ApiRequest) -> object:
        vhost = _vhost_of(call)
        octets = await body_of(
            call.request, DEFINITIONS_BYTES_MAX, BODY_SECONDS, LARGE_BODY_BYTES_PER_SECOND
        )
        kind = call.request.headers.get("content-type", "")
        # In a thread: megabytes of JSON, and passwords to be hashed.
        definitions, redirect = await run_in_threadpool(
            _read, octets, kind, vhost, self._line.server.node.configuration.makes_scram_keys
        )
        try:
            await self._apply(call, definitions)
        except DefinitionsRefused as refused:
            raise _refused(refused) from None
        for warning in definitions.warnings[:WARNINGS_LOGGED_MAX]:
            log.warning("definitions", file=_ORIGIN, note=warning)
        if redirect:
            return RedirectResponse(redirect, 303)
        return NO_CONTENT

    async def _apply(self, call: ApiRequest, definitions: Definitions) -> None:
        actor = actor_of(call)
        for _ in range(REHEARSALS_MAX):
            if await self._line.change_safely(
                await self._rehearsed(definitions, actor), IMPORT_SECONDS
            ):
                return

        def apply(node: Node, now: int) -> None:
            StepwiseImport(definitions).apply_now(node, now, actor, _ORIGIN)

        await self._line.change_safely(apply, IMPORT_SECONDS)

    async def _rehearsed(
        self, definitions: Definitions, actor: Actor
    ) -> Callable[[Node, int], bool]:
        """What applies them, unless something has changed meanwhile."""
        rehearsed = StepwiseImport(definitions)
        await self._line.walk(rehearsed.rehearse, IMPORT_SECONDS)
        return lambda node, now: rehearsed.apply_if_fresh(node, now, actor, _ORIGIN)


def _vhost_of(call: ApiRequest) -> str | None:
    return call.named("vhost") if "vhost" in call.request.path_params else None


def _answer(found: dict[str, object], download: str) -> Response:
    headers = {}
    name = "".join(
        letter for letter in download if letter.isascii() and (letter.isalnum() or letter in "-_.")
    )
    if name:
        headers["Content-Disposition"] = f'attachment; filename="{name[:100]}"'
    return answer_in_pieces(json_in_pieces(found, Pace()), headers=headers)


def _read(
    octets: bytes, kind: str, vhost: str | None, makes_scram_keys: bool
) -> tuple[Definitions, str]:
    """What a request brings, and where a browser is to go afterwards."""
    redirect = ""
    if kind.lower().startswith(_MULTIPART):
        octets, redirect = _uploaded(octets, kind)
    try:
        # Editors on Windows put a byte order mark in front.
        read = object_from_pieces(octets.decode("utf-8-sig"))
    except RecursionError:
        raise Problem(400, "the definitions are nested too deeply", _WHAT_TO_SEND) from None
    except ValueError as error:
        raise Problem(
            400, f"the definitions are not a valid JSON object: {error}", _WHAT_TO_SEND
        ) from None
    return prepare(read, vhost, makes_scram_keys), redirect


def _uploaded(octets: bytes, kind: str) -> tuple[bytes, str]:
    """The email library's parser goes line by line, and takes minutes for megabytes of boundaries."""
    form = Message()
    form["Content-Type"] = kind
    boundary = form.get_boundary("")
    if not boundary:
        raise Problem(400, "the Content-Type header of the form has no boundary")
    line = b"\r\n--" + boundary.encode("latin-1", "replace")
    parts = (b"\r\n" + octets).split(line, PARTS_MAX + 1)
    if len(parts) > PARTS_MAX + 1:
        raise Problem(400, f"the form has more than {PARTS_MAX} parts")
    found: dict[str, bytes] = {}
    # Before the first boundary is nothing of the form, and behind the last one are two dashes.
    for part in parts[1:]:
        head, blank, content = part.partition(b"\r\n\r\n")
        if not blank or len(head) > PART_HEAD_BYTES_MAX:
            continue
        headers = BytesHeaderParser().parsebytes(head.lstrip())
        name = headers.get_param("name", header="content-disposition")
        if isinstance(name, str):
            found[name] = content
    if _FILE not in found:
        raise Problem(400, f"the form has no part named '{_FILE}'")
    target = found.get("redirect", b"").decode(errors="replace").strip()
    # Only to a path of this server.
    is_own = target.startswith("/") and not target.startswith("//") and "\\" not in target
    return found[_FILE], target if is_own else ""


def _refused(refused: DefinitionsRefused) -> Problem:
    mistakes = refused.mistakes[:MISTAKES_SHOWN_MAX]
    count = len(refused.mistakes)
    what = "1 error" if count == 1 else f"{count} errors"
    return Problem(
        400,
        f"the definitions have {what}; nothing was changed: {mistakes[0]}",
        facts={"mistakes": mistakes},
    )
