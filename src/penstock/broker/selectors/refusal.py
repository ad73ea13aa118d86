"""What is wrong with a selector, and how much of one is too much.

A selector comes from a client and is evaluated for every message, so each of its dimensions has a
limit. Whatever breaks one is refused when the selector is parsed, never when it is evaluated.
"""

from typing import Final

from penstock.broker.errors import PreconditionFailed

# RabbitMQ takes 4096. Twice that leaves room for a list of IN_ITEMS_MAX short items.
SELECTOR_CHARACTERS_MAX: Final = 8192
# Parentheses and NOT. Each level costs up to nine stack frames of the parser and as many of an
# evaluation; Python stops at 1000. People write three or four levels.
NESTING_MAX: Final = 32
# More belong into a routing key. The test itself is one look-up, however many there are.
IN_ITEMS_MAX: Final = 1000
# 64 binary digits and their prefix. Also far below what makes Python's conversions slow.
NUMBER_CHARACTERS_MAX: Final = 70

# How much of the client's own text an error repeats.
_FOUND_CHARACTERS_MAX: Final = 20

THE_END: Final = "the end"


class SelectorError(PreconditionFailed):
    """A text that is not a valid selector. `position` is the offending character, counted from
    1.
    """

    def __init__(self, expected: str, position: int, found: str) -> None:
        super().__init__(
            f"invalid selector: expected {expected} at character {position}, found {found}"
        )
        self.expected: str = expected
        self.position: int = position


def quoted(text: str) -> str:
    """A piece of the client's text, fit for one line of a log."""
    if len(text) > _FOUND_CHARACTERS_MAX:
        return f"{text[:_FOUND_CHARACTERS_MAX]!r}..."
    return repr(text)
