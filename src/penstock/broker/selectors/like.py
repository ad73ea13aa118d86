"""The pattern of LIKE: `%` is any run of characters, `_` any one, the escape takes their meaning.

A pattern is cut at each `%` into stretches of known length. The first must stand at the beginning of
the text, the last at its end, and each of the others is taken where it is found first, which leaves
most room for the next: nothing is ever tried twice. A stretch without `_` is found by Python's own
search. One with `_` is found in one pass that keeps, in the bits of an integer, how much of the
stretch ends at the present character (shift-and), so a text of n characters costs n steps.
"""

from typing import Final

# A longer text matches no pattern: a header may have megabytes, each character may cost a step, and
# a selector has many conditions, all in one turn of the event loop.
TEXT_LENGTH_MAX: Final = 65_536
_RUN: Final = "%"
_ONE: Final = "_"


class Stretch:
    """What stands between two `%`: characters, and places where any character will do (None)."""

    def __init__(self, places: list[str | None]) -> None:
        self.size: int = len(places)
        # The literal pieces and where in the stretch each begins.
        self._pieces: list[str] = []
        self._offsets: list[int] = []
        # Without a place for any character this is the stretch itself.
        self._plain: str | None = None
        # For each character the places, as bits, where it fits; for all others `_anywhere`.
        self._fits: dict[str, int] = {}
        self._anywhere: int = 0
        self._note(places)
        if self._anywhere == 0:
            self._plain = "".join(self._pieces)

    def _note(self, places: list[str | None]) -> None:
        piece = ""
        for index, character in enumerate(places):
            if character is None:
                self._anywhere |= 1 << index
                self._add_piece(piece, index)
                piece = ""
            else:
                piece += character
        self._add_piece(piece, len(places))
        for index, character in enumerate(places):
            if character is not None:
                bits = self._fits.get(character, self._anywhere)
                self._fits[character] = bits | 1 << index

    def _add_piece(self, piece: str, end: int) -> None:
        if piece:
            self._pieces.append(piece)
            self._offsets.append(end - len(piece))

    def stands_at(self, text: str, start: int) -> bool:
        """The caller has made sure that the text is long enough."""
        for index, piece in enumerate(self._pieces):
            if not text.startswith(piece, start + self._offsets[index]):
                return False
        return True

    def find(self, text: str, start: int, end: int) -> int:
        """Where it begins first, between `start` and `end`; -1 when nowhere."""
        if self._plain is not None:
            return text.find(self._plain, start, end)
        complete = 1 << (self.size - 1)
        matched = 0
        for at in range(start, end):
            matched = (matched << 1 | 1) & self._fits.get(text[at], self._anywhere)
            if matched & complete:
                return at + 1 - self.size
        return -1


class LikePattern:
    """Held by a LIKE condition; never changed."""

    def __init__(self, stretches: list[Stretch]) -> None:
        assert stretches, "even an empty pattern is one empty stretch"
        self._first: Stretch = stretches[0]
        # None when the pattern has no `%`.
        self._last: Stretch | None = stretches[-1] if len(stretches) > 1 else None
        self._between: list[Stretch] = [part for part in stretches[1:-1] if part.size > 0]
        self._size_min: int = sum([part.size for part in stretches])

    def matches(self, text: str) -> bool:
        if len(text) > TEXT_LENGTH_MAX:
            return False
        last = self._last
        if last is None:
            return len(text) == self._size_min and self._first.stands_at(text, 0)
        if len(text) < self._size_min:
            return False
        end = len(text) - last.size
        if not self._first.stands_at(text, 0) or not last.stands_at(text, end):
            return False
        at = self._first.size
        for part in self._between:
            found = part.find(text, at, end)
            if found < 0:
                return False
            at = found + part.size
        return True


def like_pattern(pattern: str, escape: str | None) -> LikePattern | None:
    """None when the pattern ends with its escape character, which then escapes nothing."""
    stretches: list[Stretch] = []
    places: list[str | None] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        at += 1
        if character == escape:
            if at == len(pattern):
                return None
            places.append(pattern[at])
            at += 1
        elif character == _RUN:
            stretches.append(Stretch(places))
            places = []
        elif character == _ONE:
            places.append(None)
        else:
            places.append(character)
    stretches.append(Stretch(places))
    return LikePattern(stretches)
