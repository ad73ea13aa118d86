"""JSON schemas in short forms. They describe bodies and answers in the OpenAPI document, and bodies
are checked against them (`check`), so that a document and its server cannot disagree.
"""

from __future__ import annotations

import json
from typing import Final

from penstock.server.http.problems import Problem

Schema = dict[str, object]

TEXT: Final[Schema] = {"type": "string"}
INTEGER: Final[Schema] = {"type": "integer"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
NUMBER: Final[Schema] = {"type": "number"}
BOOLEAN: Final[Schema] = {"type": "boolean"}
# Any JSON value.
ANYTHING: Final[Schema] = {}
TABLE: Final[Schema] = {"type": "object"}
# A table of arguments. An empty list is one too: that is how Erlang's JSON sometimes says it.
ARGUMENTS: Final[Schema] = {"type": ["object", "array"], "maxItems": 0}
# RabbitMQ's tools send words for flags.
FLAG: Final[Schema] = {"type": ["boolean", "string"], "enum": [True, False, "true", "false"]}

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}


def list_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def object_of(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    """Further keys are allowed: RabbitMQ's tools send some that mean nothing here."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
    }


def one_of(*words: str) -> Schema:
    return {"type": "string", "enum": list(words)}


def check(value: object, schema: Schema, place: str = "the body") -> None:
    """Raises a `Problem` that names the place of the first mistake."""
    wanted = schema.get("type")
    if wanted is None:
        return
    words = [wanted] if isinstance(wanted, str) else list(wanted)  # type: ignore[call-overload]
    if not any(_is_a(value, str(word)) for word in words):
        raise Problem(400, f"{place} must be of type {' or '.join(map(str, words))}")
    enum = schema.get("enum")
    if isinstance(enum, list) and value not in enum:
        raise Problem(400, f"{place} must be one of: {', '.join(map(_shown, enum))}")
    minimum = schema.get("minimum")
    if isinstance(minimum, int) and isinstance(value, (int, float)) and value < minimum:
        raise Problem(400, f"{place} must be at least {minimum}")
    maximum = schema.get("maximum")
    if isinstance(maximum, int) and isinstance(value, (int, float)) and value > maximum:
        raise Problem(400, f"{place} must be at most {maximum}")
    if isinstance(value, dict):
        _check_object(value, schema, place)
    elif isinstance(value, list):
        items = schema.get("items")
        if schema.get("maxItems") == 0 and value:
            raise Problem(400, f"{place} must be an object")
        if isinstance(items, dict):
            for index, item in enumerate(value):
                check(item, items, f"{place}[{index}]")


def _check_object(value: dict[str, object], schema: Schema, place: str) -> None:
    required = schema.get("required")
    for key in required if isinstance(required, list) else ():
        if key not in value:
            raise Problem(400, f"key_missing: {place} lacks the key '{key}'")
    properties = schema.get("properties")
    if isinstance(properties, dict):
        for key, inner in properties.items():
            if key in value:
                check(value[key], inner, f"'{key}'")


def _shown(word: object) -> str:
    return word if isinstance(word, str) else json.dumps(word)


def _is_a(value: object, word: str) -> bool:
    if isinstance(value, bool) and word != "boolean":
        return False
    return isinstance(value, _TYPES[word])


def flag_in(body: dict[str, object], key: str, default: bool = False) -> bool:
    """Of a body that was checked against `FLAG`."""
    return body.get(key, default) in {True, "true"}


def arguments_in(body: dict[str, object], key: str = "arguments") -> dict[str, object]:
    """Of a body that was checked against `ARGUMENTS`."""
    value = body.get(key)
    return dict(value) if isinstance(value, dict) else {}


def text_of(body: dict[str, object], key: str, default: str = "") -> str:
    """Of a body that was checked against `TEXT`."""
    value = body.get(key, default)
    assert isinstance(value, str), "the body was checked"
    return value


def integer_of(body: dict[str, object], key: str, default: int = 0) -> int:
    """Of a body that was checked against `INTEGER` or `COUNT`."""
    value = body.get(key, default)
    assert isinstance(value, int), "the body was checked"
    return value
