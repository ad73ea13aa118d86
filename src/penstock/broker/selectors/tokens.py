"""The words of a selector.

A name begins with a letter, `_`, `$` or another character that may begin a Java identifier, and goes
on with these, digits and dots. Any other name stands in double quotes ("x-opt-hops"), with "" for a
quote in it. A dash outside quotes is a minus. Reserved words have no case.
"""

import unicodedata
from enum import Enum
from typing import Final

from penstock.broker.selectors.numerals import scan_number
from penstock.broker.selectors.refusal import (
    SELECTOR_CHARACTERS_MAX,
    THE_END,
    SelectorError,
    quoted,
)


class Kind(Enum):
    """The value is what an error calls it."""

    NAME = "a name"
    STRING = "a string"
    NUMBER = "a number"
    AND = "AND"
    OR = "OR"
    NOT = "NOT"
    BETWEEN = "BETWEEN"
    LIKE = "LIKE"
    ESCAPE = "ESCAPE"
    IN = "IN"
    IS = "IS"
    NULL = "NULL"
    TRUE = "TRUE"
    FALSE = "FALSE"
    EQUAL = "'='"
    UNEQUAL = "'<>'"
    LESS = "'<'"
    LESS_OR_EQUAL = "'<='"
    GREATER = "'>'"
    GREATER_OR_EQUAL = "'>='"
    PLUS = "'+'"
    MINUS = "'-'"
    TIMES = "'*'"
    DIVIDED = "'/'"
    REMAINDER = "'%'"
    OPEN = "'('"
    CLOSE = "')'"
    COMMA = "','"
    END = "the end"


_RESERVED: Final[dict[str, Kind]] = {
    "AND": Kind.AND,
    "OR": Kind.OR,
    "NOT": Kind.NOT,
    "BETWEEN": Kind.BETWEEN,
    "LIKE": Kind.LIKE,
    "ESCAPE": Kind.ESCAPE,
    "IN": Kind.IN,
    "IS": Kind.IS,
    "NULL": Kind.NULL,
    "TRUE": Kind.TRUE,
    "FALSE": Kind.FALSE,
}
_SIGNS: Final[dict[str, Kind]] = {
    "=": Kind.EQUAL,
    "<>": Kind.UNEQUAL,
    "!=": Kind.UNEQUAL,
    "<": Kind.LESS,
    "<=": Kind.LESS_OR_EQUAL,
    ">": Kind.GREATER,
    ">=": Kind.GREATER_OR_EQUAL,
    "+": Kind.PLUS,
    "-": Kind.MINUS,
    "*": Kind.TIMES,
    "/": Kind.DIVIDED,
    "%": Kind.REMAINDER,
    "(": Kind.OPEN,
    ")": Kind.CLOSE,
    ",": Kind.COMMA,
}
# Space, tab, form feed and the ends of a line, as JMS has it.
_BLANKS: Final = " \t\n\r\f"
_QUOTE: Final = "'"
_NAME_QUOTE: Final = '"'


class Token:
    """One word, held by the parser."""

    def __init__(self, kind: Kind, text: str, start: int, end: int) -> None:
        self.kind: Kind = kind
        # A name or string without its quotes, else as it was written.
        self.text: str = text
        self.start: int = start
        self.end: int = end
        self.number: object = None

    @property
    def position(self) -> int:
        return self.start + 1


def tokens_of(text: str) -> list[Token]:
    """Ends with a token of the kind END. Raises `SelectorError`."""
    if len(text) > SELECTOR_CHARACTERS_MAX:
        raise SelectorError(
            f"at most {SELECTOR_CHARACTERS_MAX} characters", SELECTOR_CHARACTERS_MAX + 1, "more"
        )
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        if text[at] in _BLANKS:
            at += 1
            continue
        token = _token_at(text, at)
        tokens.append(token)
        at = token.end
    tokens.append(Token(Kind.END, "", at, at))
    return tokens


def _token_at(text: str, start: int) -> Token:
    first = text[start]
    if _begins_name(first):
        return _word(text, start)
    if first == _QUOTE:
        return _quotation(text, start, Kind.STRING)
    if first == _NAME_QUOTE:
        token = _quotation(text, start, Kind.NAME)
        if not token.text:
            raise SelectorError("a name", token.position, "nothing between the quotes")
        return token
    if "0" <= first <= "9" or (first == "." and "0" <= text[start + 1 : start + 2] <= "9"):
        return _number(text, start)
    for size in (2, 1):
        sign = text[start : start + size]
        kind = _SIGNS.get(sign)
        if kind is not None:
            return Token(kind, sign, start, start + len(sign))
    raise SelectorError("a value or an operator", start + 1, quoted(first))


def _word(text: str, start: int) -> Token:
    end = start + 1
    while end < len(text) and _continues_name(text[end]):
        end += 1
    word = text[start:end]
    kind = _RESERVED.get(word.upper()) if word.isascii() else None
    return Token(Kind.NAME if kind is None else kind, word, start, end)


def _quotation(text: str, start: int, kind: Kind) -> Token:
    quote = text[start]
    pieces: list[str] = []
    at = start + 1
    while True:
        end = text.find(quote, at)
        if end < 0:
            raise SelectorError(
                f"a closing {quote} for the one at character {start + 1}", len(text) + 1, THE_END
            )
        pieces.append(text[at:end])
        if text[end + 1 : end + 2] != quote:
            return Token(kind, "".join(pieces), start, end + 1)
        # A doubled quote stands for itself.
        pieces.append(quote)
        at = end + 2


def _number(text: str, start: int) -> Token:
    number, end = scan_number(text, start)
    if end < len(text) and _continues_name(text[end]):
        raise SelectorError("a number", start + 1, quoted(text[start : end + 1]))
    token = Token(Kind.NUMBER, text[start:end], start, end)
    token.number = number
    return token


def _begins_name(character: str) -> bool:
    if character in "_$":
        return True
    # Python's identifiers are Java's but for currency signs.
    return character.isidentifier() or unicodedata.category(character) == "Sc"


def _continues_name(character: str) -> bool:
    return character == "." or _begins_name(character) or ("_" + character).isidentifier()
