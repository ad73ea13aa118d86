"""The answer to a request that cannot be done: a status and a JSON object.

{"error": "gone", "reason": "...", "what_to_do": "...", "first_offset": 4096}
"""

from __future__ import annotations

import json
import math
from http import HTTPStatus

from starlette.responses import JSONResponse

from penstock.broker.errors import (
    AccessRefused,
    NotAllowed,
    NotFound,
    NotImplementedHere,
    NotRoot,
    PreconditionFailed,
    Refusal,
    ResourceError,
    ResourceLocked,
)


class JsonAnswer(JSONResponse):
    """Names may hold bytes that are not UTF-8; JSON's escapes carry them all the same."""

    def render(self, content: object) -> bytes:
        try:
            text = json.dumps(content, separators=(",", ":"), allow_nan=False)
        except ValueError:
            text = json.dumps(finite(content), separators=(",", ":"))
        return text.encode("ascii")


def finite(value: object) -> object:
    """Clients may send floats that are no numbers, for which JSON has no place: they are texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: finite(member) for name, member in value.items()}
    if isinstance(value, list):
        return [finite(member) for member in value]
    return value


class Problem(Exception):
    """Raised anywhere under a request and answered by the application. `facts` stand beside the
    texts in the answer.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        what_to_do: str = "",
        *,
        facts: dict[str, object] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.what_to_do = what_to_do
        self.facts = facts or {}
        self.headers = headers or {}

    def body(self) -> dict[str, object]:
        body: dict[str, object] = {"error": error_name(self.status), "reason": self.reason}
        if self.what_to_do:
            body["what_to_do"] = self.what_to_do
        return {**body, **self.facts}

    def response(self) -> JsonAnswer:
        return JsonAnswer(self.body(), self.status, self.headers)


def error_name(status: int) -> str:
    return HTTPStatus(status).phrase.lower().replace(" ", "_")


_STATUS_OF_REFUSAL: dict[type[Refusal], int] = {
    NotFound: 404,
    AccessRefused: 403,
    NotAllowed: 403,
    ResourceLocked: 409,
    PreconditionFailed: 400,
    NotImplementedHere: 501,
    ResourceError: 503,
    NotRoot: 503,
}


def problem_of(refusal: Refusal) -> Problem:
    return Problem(_STATUS_OF_REFUSAL.get(type(refusal), 400), refusal.text)
