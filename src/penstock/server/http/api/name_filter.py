"""Regular expressions that a client sends to filter a list by name.

Python's engine goes back and forth, may take longer than the universe lasts for a short expression,
and holds all threads of the process meanwhile. So only expressions are accepted whose cost is
bounded: a repeat stands behind one character, class or dot, there are few of them, and at most one
group has alternatives. Names have 255 bytes at most.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.server.http.problems import Problem

# RabbitMQ's users write `^orders\..*` or `(a|b)$`. Each further repeat costs as many steps as a name
# has characters, for every step of the others.
REPEATS_MAX: Final = 2
ALTERNATIVES_MAX: Final = 16
LENGTH_MAX: Final = 1000
_REPEATS: Final = "*+?{"
_WHAT_TO_DO: Final = (
    f"Use at most {REPEATS_MAX} of * + ? {{}}, each behind one character, class or dot, one group with "
    "alternatives, no look-around and no back-references."
)


def compiled_filter(text: str) -> re.Pattern[str]:
    """Raises a `Problem` for an expression that is not valid, or may cost too much."""
    if len(text) > LENGTH_MAX:
        raise Problem(400, f"the filter 'name' is longer than {LENGTH_MAX} characters")
    _check_cost(text)
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise Problem(
            400, f"the filter 'name' is not a valid regular expression: {error}"
        ) from None


def _check_cost(text: str) -> None:
    repeats = bars = groups_with_bars = depth = 0
    has_bar = False
    previous = ""
    at = 0
    while at < len(text):
        sign = text[at]
        if sign == "\\":
            if text[at + 1 : at + 2].isdigit():
                raise _costly("a back-reference")
            at += 1
            sign = "escaped"
        elif sign == "[":
            at = _end_of_class(text, at)
            sign = "class"
        elif sign == "(":
            if text[at + 1 : at + 2] == "?" and text[at + 1 : at + 3] != "?:":
                raise _costly("a look-around or an option")
            depth += 1
            has_bar = False
            if text[at + 1 : at + 3] == "?:":
                at += 2
        elif sign == ")":
            depth -= 1
            groups_with_bars += has_bar
            has_bar = False
        elif sign == "|":
            bars += 1
            has_bar = depth > 0
        elif sign in _REPEATS:
            repeats += 1
            if previous == ")":
                raise _costly("a repeated group")
        previous = sign
        at += 1
    if repeats > REPEATS_MAX or bars > ALTERNATIVES_MAX or groups_with_bars > 1:
        raise _costly("too many repeats or alternatives")


def _end_of_class(text: str, at: int) -> int:
    """Where the class that begins here ends; one that does not end is refused by the engine."""
    at += 1
    if text[at : at + 1] == "^":
        at += 1
    # The first bracket is one of the characters.
    at += 1
    while at < len(text) and text[at] != "]":
        at += 2 if text[at] == "\\" else 1
    return at


def _costly(what: str) -> Problem:
    return Problem(400, f"the filter 'name' has {what}, which may cost too much", _WHAT_TO_DO)
