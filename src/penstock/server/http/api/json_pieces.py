"""Large JSON objects, read and written piece by piece.

The interpreter's JSON reads and writes a value in one go, and nothing else runs meanwhile, in whatever
thread it is called: two megabytes of definitions stop the broker's loop for tens of milliseconds, and
eight megabytes of empty lists for half a second. Here an object is read and written in pieces, and other
threads have their turn between them. Pieces are the rows of its lists, which is where definitions are
large, and its other members. A member that is a text may have any length, because it costs
little: a message that is published has its payload there.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from penstock.server.http.api.pace import Pace
from penstock.server.http.api.pieces import PIECE_BYTES
from penstock.server.http.problems import Problem, finite
from penstock.server.http.request_parts import REASON_LENGTH_MAX, object_in
from penstock.server.http.settings import BODY_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

# Rows that are written in one go: less than half a millisecond.
PIECE_ROWS: Final = 50
# A row, or a member that is neither a list nor a text, may have this many characters: at worst
# (nothing but empty lists) they are read in some seven milliseconds. A larger one is refused.
VALUE_CHARACTERS_MAX: Final = 256 * 1024
# What is tried first: most rows are smaller, and the text of each is copied before it is read.
_FIRST_CHARACTERS: Final = 4 * 1024
# Definitions have about twenty members, and a message has four. More are refused.
MEMBERS_MAX: Final = 1_000
# Rows of all lists. As many definitions as one request may have are a third of it; more are refused
# before their number costs seconds.
ROWS_MAX: Final = 1_000_000
# The same of other bodies, unless a page says otherwise: they are large because of a text.
LISTED_MAX: Final = 1_000
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_SEPARATORS: Final = (",", ":")
_QUOTE: Final = '"'


def json_in_pieces(
    found: dict[str, object], pace: Pace, rows_at_once: int = PIECE_ROWS
) -> list[bytes]:
    """The lists in it are empty afterwards: their rows are forgotten as they are written, because
    freeing all of them at once takes milliseconds. Fewer are written in one go where a row may be
    large.
    """
    pieces: list[bytes] = []
    piece = bytearray(b"{")
    for index, (name, value) in enumerate(found.items()):
        piece += b"%b%b:" % (b"," if index else b"", json.dumps(name).encode("ascii"))
        if not isinstance(value, list):
            piece += _dumped(value)
            continue
        piece += b"["
        for rows in _taken(value, rows_at_once):
            # Without its brackets.
            piece += _dumped(rows)[1:-1]
            if value:
                piece += b","
            if len(piece) >= PIECE_BYTES:
                pieces.append(bytes(piece))
                piece.clear()
            pace.rest_if_due()
        piece += b"]"
    pieces.append(bytes(piece) + b"}")
    return pieces


def _taken(rows: list[object], count: int) -> Iterator[list[object]]:
    rows.reverse()
    while rows:
        taken = rows[-count:]
        del rows[-count:]
        taken.reverse()
        yield taken


def list_in_pieces(value: list[object], rows: int) -> bytes:
    pieces: list[bytes] = []
    for first in range(0, len(value), rows):
        # Without its brackets.
        pieces.append(_dumped(value[first : first + rows])[1:-1])
    return b"[" + b",".join(pieces) + b"]"


def _dumped(value: object) -> bytes:
    try:
        text = json.dumps(value, separators=_SEPARATORS, allow_nan=False)
    except ValueError:
        text = json.dumps(finite(value), separators=_SEPARATORS)
    return text.encode("ascii")


def large_object_in(body: bytes, form: str, rows_max: int = LISTED_MAX) -> dict[str, object]:
    """As `object_in`, for bodies that may be larger than usual, in a thread that is not a loop's."""
    if len(body) <= BODY_BYTES_MAX:
        return object_in(body, form)
    try:
        return object_from_pieces(body.decode(), rows_max)
    except RecursionError:
        reason = "the body is nested too deeply"
    except ValueError as error:
        reason = f"the body is not a valid JSON object: {error}"[:REASON_LENGTH_MAX]
    raise Problem(400, reason, f"Send {form}.")


def object_from_pieces(text: str, rows_max: int = ROWS_MAX) -> dict[str, object]:
    """For a thread that is not a loop's. Raises `ValueError` for what is not a JSON object or exceeds
    a limit, and `RecursionError`.
    """
    return _Reader(text, rows_max).whole()


class _Reader:
    """Held by `object_from_pieces`."""

    def __init__(self, text: str, rows_max: int) -> None:
        self._text = text
        self._rows_max = rows_max
        self._row_count = 0
        self._pace = Pace()
        self._at = 0
        self._decoder = json.JSONDecoder(parse_constant=_no_number)

    def whole(self) -> dict[str, object]:
        found: dict[str, object] = {}
        self._expect("{")
        if not self._takes("}"):
            while True:
                if not self._sees(_QUOTE):
                    raise self._mistake("a name in quotes")
                name = self._string()
                self._expect(":")
                found[name] = self._member()
                if len(found) > MEMBERS_MAX:
                    raise ValueError(f"it has more than {MEMBERS_MAX} members")
                if not self._takes(","):
                    break
            self._expect("}")
        if self._skip() < len(self._text):
            raise self._mistake("the end")
        return found

    def _member(self) -> object:
        if self._sees("["):
            return self._list()
        return self._string() if self._sees(_QUOTE) else self._value()

    def _list(self) -> list[object]:
        rows: list[object] = []
        self._expect("[")
        if self._takes("]"):
            return rows
        while True:
            rows.append(self._value())
            self._row_count += 1
            if self._row_count > self._rows_max:
                raise ValueError(f"its lists have more than {self._rows_max} members")
            self._pace.rest_if_due()
            if not self._takes(","):
                break
        self._expect("]")
        return rows

    def _string(self) -> str:
        """The quote has been seen."""
        text, self._at = self._decoder.raw_decode(self._text, self._at)
        assert isinstance(text, str), "a value in quotes is a text"
        return text

    def _value(self) -> object:
        start = self._skip()
        try:
            return self._read_within(start, _FIRST_CHARACTERS)
        except ValueError:
            return self._read_within(start, VALUE_CHARACTERS_MAX)

    def _read_within(self, start: int, characters: int) -> object:
        piece = self._text[start : start + characters]
        is_cut = start + characters < len(self._text)
        try:
            value, size = self._decoder.raw_decode(piece)
        except json.JSONDecodeError as error:
            if is_cut:
                raise self._too_large(start, characters) from None
            # With its place in the whole text.
            raise json.JSONDecodeError(error.msg, self._text, start + error.pos) from None
        if is_cut and size == characters:
            # A number, of which there may be more.
            raise self._too_large(start, characters)
        self._at = start + size
        return value

    def _too_large(self, start: int, characters: int) -> ValueError:
        return json.JSONDecodeError(
            f"a value is not valid, or longer than {characters} characters", self._text, start
        )

    def _skip(self) -> int:
        matched = _SPACE.match(self._text, self._at)
        assert matched is not None, "nothing is a match too"
        self._at = matched.end()
        return self._at

    def _sees(self, character: str) -> bool:
        return self._text.startswith(character, self._skip())

    def _takes(self, character: str) -> bool:
        if self._sees(character):
            self._at += 1
            return True
        return False

    def _expect(self, character: str) -> None:
        if not self._takes(character):
            raise self._mistake(f"'{character}'")

    def _mistake(self, wanted: str) -> ValueError:
        return json.JSONDecodeError(f"expecting {wanted}", self._text, self._at)


def _no_number(word: str) -> float:
    """NaN and the infinities are not JSON, though Python reads them."""
    raise ValueError(f"{word} is not valid JSON")
