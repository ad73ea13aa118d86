"""The option `filter`: which messages become rows, by routing key and by header.

    key: orders.*.eu                 a pattern as of a topic exchange
    header: region = eu              a header with this text
    key: orders.#; header: kind=new  both

Bulk reads carry whole ranges of a segment, so the filter works where they are decoded, on the
executor, before bodies are copied: it reduces the rows for Spark, not the bytes on the network.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.errors import OptionError
from penstock.spark.segments import RowChoice, Rows

_FORM: Final = "Use 'key: PATTERN', 'header: NAME = VALUE', or several with ';' between them."


@dataclass(frozen=True, slots=True)
class RowFilter(RowChoice):
    """All conditions must hold. Pickled with a reader."""

    key_expressions: tuple[str, ...]
    headers: tuple[tuple[str, str], ...]

    def matches(self, rows: Rows) -> np.ndarray[Any, Any]:
        mask = np.ones(rows.count, dtype=bool)
        for expression in self.key_expressions:
            mask &= _as_mask(pc.match_substring_regex(_dotted(rows.routing_key()), expression))
        for wanted in self.headers:
            found = [wanted in (head.headers or ()) for head in rows.heads()]
            mask &= _as_mask(rows.spread(found, pa.bool_()))
        return mask


def read_filter(text: str | None) -> RowFilter | None:
    """Raises `OptionError`."""
    if text is None:
        return None
    expressions: list[str] = []
    headers: list[tuple[str, str]] = []
    for part in text.split(";"):
        kind, colon, rest = part.partition(":")
        kind, rest = kind.strip().lower(), rest.strip()
        if colon and kind == "key":
            expressions.append(topic_expression(rest))
        elif colon and kind == "header" and "=" in rest:
            name, _, value = rest.partition("=")
            headers.append((name.strip(), value.strip()))
        else:
            raise OptionError("filter", f"cannot parse {part.strip()!r}", _FORM)
    return RowFilter(tuple(expressions), tuple(headers))


def topic_expression(pattern: str) -> str:
    """A regular expression over routing keys that have a dot before every word (`_dotted`)."""
    pieces: list[str] = []
    for word in pattern.split(".") if pattern else []:
        if word == "#":
            pieces.append(r"(?:\.[^.]*)*")
        elif word == "*":
            pieces.append(r"\.[^.]*")
        else:
            pieces.append(r"\." + re.escape(word))
    return r"\A" + "".join(pieces) + r"\z"


def _dotted(keys: pa.Array) -> pa.Array:
    # An empty key has no words at all.
    return pc.if_else(pc.equal(keys, ""), keys, pc.binary_join_element_wise(".", keys, ""))


def _as_mask(array: pa.Array) -> np.ndarray[Any, Any]:
    mask: np.ndarray[Any, Any] = array.to_numpy(zero_copy_only=False)
    return mask
