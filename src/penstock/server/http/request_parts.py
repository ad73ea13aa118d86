"""Reading a request: parts of its path, numbers of its query, its body. All raise a `Problem`."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from penstock.server.http.problems import Problem
from penstock.server.http.settings import (
    BODY_BYTES_MAX,
    BODY_BYTES_PER_SECOND,
    BODY_SECONDS,
)

if TYPE_CHECKING:
    from starlette.requests import Request

NUMBER_MAX: Final = 2**63 - 1
# How much of a parser's text is sent back.
REASON_LENGTH_MAX: Final = 300


def named(request: Request, part: str) -> str:
    """A part of the path; the application leaves it percent-encoded, so that %2F is not a slash."""
    return unquote(str(request.path_params[part]), errors="surrogateescape")


def numbered(request: Request, part: str) -> int:
    return number(named(request, part), f"the {part} in the path must be a number")


def asked(request: Request, key: str, default: int | None) -> int:
    text = request.query_params.get(key)
    if text is None and default is not None:
        return default
    return number(text or "", f"the query parameter '{key}' must be a number: ?{key}=N")


def number(text: str, form: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 19) or int(text) > NUMBER_MAX:
        raise Problem(400, f"{text[:30]!r} is not a valid number: {form}")
    return int(text)


async def body_of(
    request: Request,
    bytes_max: int = BODY_BYTES_MAX,
    seconds: float = BODY_SECONDS,
    bytes_per_second: int = BODY_BYTES_PER_SECOND,
) -> bytes:
    """Raises a `Problem` for a body that is too large or comes too slowly."""
    # Before any of it is read, so that a client that waits for `100 Continue` does not send it.
    _check_size(_announced(request), bytes_max)
    pieces: list[bytes] = []
    size = 0
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        async with asyncio.timeout(seconds) as patience:
            async for piece in request.stream():
                pieces.append(piece)
                size += len(piece)
                if size > bytes_max:
                    break
                patience.reschedule(began + seconds + size / bytes_per_second)
    except TimeoutError:
        raise Problem(
            408,
            f"the body was received too slowly: {size} bytes in {loop.time() - began:.0f} s",
            "Send the request again, faster.",
            headers={"Connection": "close"},
        ) from None
    _check_size(size, bytes_max)
    return b"".join(pieces)


def _announced(request: Request) -> int:
    """How large the body is, as far as the client says so."""
    length = request.headers.get("content-length", "")
    return int(length[:19]) if length.isascii() and length.isdigit() else 0


def _check_size(size: int, bytes_max: int) -> None:
    if size > bytes_max:
        raise Problem(
            413,
            f"the body is larger than {bytes_max} bytes, the limit of this page",
            f"Send at most {bytes_max} bytes at once, in several requests if there is more.",
            headers={"Connection": "close"},
        )


def object_in(body: bytes, form: str) -> dict[str, object]:
    """`form` describes the expected JSON object, for the error. Not for large bodies, which
    `json_pieces` reads: this holds up everybody else.
    """
    reason = "the body is not a JSON object"
    try:
        read = json.loads(body, parse_constant=_no_number)
    except RecursionError:
        reason = "the body is nested too deeply"
    except ValueError as error:
        reason = f"the body is not valid JSON: {error}"[:REASON_LENGTH_MAX]
    else:
        if isinstance(read, dict):
            return read
    raise Problem(400, reason, f"Send {form}.")


def _no_number(word: str) -> float:
    """NaN and the infinities are not JSON, though Python reads them."""
    raise ValueError(f"{word} is not valid JSON")


def text_in(read: dict[str, object], key: str, form: str) -> str:
    """A name. One with half a surrogate pair cannot be stored."""
    value = read.get(key)
    if not isinstance(value, str) or not is_writable(value):
        raise Problem(400, f"'{key}' is not a valid Unicode string", f"Send {form}.")
    return value


def is_writable(text: str) -> bool:
    try:
        text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def integer_in(read: dict[str, object], key: str, default: int | None, form: str) -> int:
    value = read.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > NUMBER_MAX:
        raise Problem(400, f"'{key}' is not a number", f"Send {form}.")
    return value
