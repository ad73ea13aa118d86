"""Reading the rows of a definitions file: every value is asked for by key and type.

Each mistake is recorded with its path (`queues[3].durable: ...`) and reading goes on, so that
an operator sees all mistakes of a file at once. A row that is `faulty` makes no command.
"""

import re

from penstock.broker.json_values import (
    INTEGER_MAX,
    INTEGER_MIN,
    expected,
    name_fault,
    text_fault,
    value_fault,
)
from penstock.broker.names import NAME_OCTETS_MAX, PATTERN_LENGTH_MAX


class Row:
    """One object of a list in the definitions. Held while it is read."""

    def __init__(self, path: str, table: dict[str, object], mistakes: list[str]) -> None:
        self.path: str = path
        self.table: dict[str, object] = table
        self.faulty: bool = False
        self.mistakes: list[str] = mistakes

    def complain(self, key: str, text: str) -> None:
        place = f"{self.path}.{key}" if key else self.path
        self.mistakes.append(f"{place}: {text}")
        self.faulty = True

    def text(self, key: str) -> str:
        value = self.table.get(key)
        if not isinstance(value, str):
            self.complain(key, expected("a string", key in self.table, value))
            return ""
        fault = text_fault(value)
        if fault:
            self.complain(key, fault)
        return value

    def text_or(self, key: str, default: str) -> str:
        return self.text(key) if key in self.table else default

    def name(self, key: str) -> str:
        """A text that is a short string on the wire."""
        value = self.text(key)
        if not self.faulty and len(value.encode(errors="surrogateescape")) > NAME_OCTETS_MAX:
            self.complain(key, f"is longer than {NAME_OCTETS_MAX} bytes")
        return value

    def flag(self, key: str) -> bool:
        value = self.table.get(key)
        if not isinstance(value, bool):
            self.complain(key, expected("true or false", key in self.table, value))
            return False
        return value

    def flag_or(self, key: str, default: bool) -> bool:
        return self.flag(key) if key in self.table else default

    def integer_or(self, key: str, default: int) -> int:
        if key not in self.table:
            return default
        value = self.table[key]
        if not isinstance(value, int) or isinstance(value, bool):
            self.complain(key, expected("an integer", True, value))
            return default
        if not INTEGER_MIN <= value <= INTEGER_MAX:
            self.complain(key, "needs more than 64 bits")
        return value

    def pattern(self, key: str) -> str:
        value = self.text(key)
        if not self.faulty:
            fault = pattern_fault(value)
            if fault:
                self.complain(key, fault)
        return value

    def words(self, key: str) -> tuple[str, ...]:
        """A list, or a text with commas, as tags are written; absent is none."""
        value = self.table.get(key, "")
        words = value.split(",") if isinstance(value, str) else value
        if not isinstance(words, list) or not all([isinstance(word, str) for word in words]):
            self.complain(key, "must be a list of strings, or a comma-separated string")
            return ()
        stripped = [word.strip() for word in words]
        return tuple([word for word in stripped if word])

    def arguments(self, key: str) -> dict[str, object]:
        """An absent value counts as empty, and so does `[]`, which Erlang's JSON sometimes writes
        for it.
        """
        value = self.table.get(key)
        if value is None or value == []:
            return {}
        if not isinstance(value, dict):
            self.complain(key, expected("an object", True, value))
            return {}
        for name, member in value.items():
            fault = name_fault(name) or value_fault(member, 1)
            if fault:
                self.complain(f"{key}.{name}", fault)
        return dict(value)


def rows_of(definitions: dict[str, object], section: str, mistakes: list[str]) -> list[Row]:
    """The rows of a list; none when the definitions have no such list."""
    rows: list[Row] = []
    value = definitions.get(section)
    if value is None:
        return rows
    if not isinstance(value, list):
        mistakes.append(f"{section}: {expected('a list', True, value)}")
        return rows
    for index, member in enumerate(value):
        path = f"{section}[{index}]"
        if isinstance(member, dict):
            rows.append(Row(path, member, mistakes))
        else:
            mistakes.append(f"{path}: {expected('an object', True, member)}")
    return rows


def pattern_fault(pattern: str) -> str:
    if len(pattern) > PATTERN_LENGTH_MAX:
        return f"is longer than {PATTERN_LENGTH_MAX} characters"
    if "[:" in pattern and ":]" in pattern:
        # Python would silently take `[[:alpha:]]` for something else.
        return "character classes such as [:alpha:] are not supported; write [a-zA-Z]"
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"'{pattern}' is not a valid regular expression: {error}"
    return ""
