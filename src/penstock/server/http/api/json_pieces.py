"""Large JSON objects, read and written piece by piece.

The interpreter's JSON reads and writes a value in one go, and nothing else runs meanwhile, in whatever
thread it is called: two megabytes stop the broker's loop for tens of milliseconds. Here the lists of
an object, which is where definitions are large, are read and written in pieces, and other threads have
their turn between them.
"""

from __future__ import annotations

import json
import re
from typing import Final

from penstock.server.http.problems import finite

# Rows that are written in one go: about a millisecond.
PIECE_ROWS: Final = 200
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_SEPARATORS: Final = (",", ":")


def json_in_pieces(found: dict[str, object]) -> bytes:
    members: list[str] = []
    for name, value in found.items():
        members.append(f"{json.dumps(name)}:{_written(value)}")
    return ("{" + ",".join(members) + "}").encode("ascii")


def _written(value: object) -> str:
    if not isinstance(value, list):
        return _dumped(value)
    pieces: list[str] = []
    for first in range(0, len(value), PIECE_ROWS):
        # Without its brackets.
        pieces.append(_dumped(value[first : first + PIECE_ROWS])[1:-1])
    return "[" + ",".join(pieces) + "]"


def _dumped(value: object) -> str:
    try:
        return json.dumps(value, separators=_SEPARATORS, allow_nan=False)
    except ValueError:
        return json.dumps(finite(value), separators=_SEPARATORS)


def object_from_pieces(text: str) -> dict[str, object]:
    """Raises `ValueError` for what is not a JSON object, and `RecursionError`."""
    return _Reader(text).whole()


class _Reader:
    """Held by `object_from_pieces`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._decoder = json.JSONDecoder(parse_constant=_no_number)

    def whole(self) -> dict[str, object]:
        found: dict[str, object] = {}
        self._expect("{")
        if not self._takes("}"):
            while True:
                name = self._value()
                if not isinstance(name, str):
                    raise self._mistake("a name in quotes")
                self._expect(":")
                found[name] = self._list() if self._sees("[") else self._value()
                if not self._takes(","):
                    break
            self._expect("}")
        if self._skip() < len(self._text):
            raise self._mistake("the end")
        return found

    def _list(self) -> list[object]:
        rows: list[object] = []
        self._expect("[")
        if self._takes("]"):
            return rows
        while True:
            rows.append(self._value())
            if not self._takes(","):
                break
        self._expect("]")
        return rows

    def _value(self) -> object:
        value, self._at = self._decoder.raw_decode(self._text, self._skip())
        return value

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
