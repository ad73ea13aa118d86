"""What a request says: parts of its path, numbers of its query, its body. All raise a `Problem`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from penstock.server.http.problems import Problem
from penstock.server.http.settings import BODY_BYTES_MAX

if TYPE_CHECKING:
    from starlette.requests import Request

NUMBER_MAX: Final = 2**63 - 1


def named(request: Request, part: str) -> str:
    """A part of the path; the application leaves it percent-encoded, so that %2F is no slash."""
    return unquote(str(request.path_params[part]), errors="surrogateescape")


def numbered(request: Request, part: str) -> int:
    return number(named(request, part), f"the path has the number of a {part} there")


def asked(request: Request, key: str, default: int | None) -> int:
    text = request.query_params.get(key)
    if text is None and default is not None:
        return default
    return number(text or "", f"'{key}' is a number of the query: ?{key}=N")


def number(text: str, form: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 19) or int(text) > NUMBER_MAX:
        raise Problem(400, f"{text[:30]!r} is not a number", f"Note: {form}.")
    return int(text)


async def body_of(request: Request, bytes_max: int = BODY_BYTES_MAX) -> bytes:
    pieces: list[bytes] = []
    room = bytes_max
    async for piece in request.stream():
        pieces.append(piece)
        room -= len(piece)
        if room < 0:
            raise Problem(
                413,
                f"a body has at most {bytes_max} octets here",
                headers={"Connection": "close"},
            )
    return b"".join(pieces)


def object_in(body: bytes, form: str) -> dict[str, object]:
    """`form` is how the JSON object should look, for whoever sent something else."""
    try:
        read = json.loads(body)
    except ValueError:
        read = None
    if not isinstance(read, dict):
        raise Problem(400, "the body is not a JSON object", f"Send {form}.")
    return read


def integer_in(read: dict[str, object], key: str, default: int | None, form: str) -> int:
    value = read.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > NUMBER_MAX:
        raise Problem(400, f"'{key}' is not a number", f"Send {form}.")
    return value
