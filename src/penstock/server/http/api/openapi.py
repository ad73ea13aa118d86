"""The OpenAPI document, written from the table of operations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import penstock
from penstock.server.http.api.schema import COUNT, INTEGER, TEXT, Schema, list_of, object_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.server.http.api.operation import Operation

_PART: Final = re.compile(r"\{([a-z_]+)\}")
_PROBLEM: Final = object_of({"error": TEXT, "reason": TEXT}, {"what_to_do": TEXT})
# What every operation may answer besides success, and why.
_PROBLEMS: Final = {
    400: "The request makes no sense; the reason says what is wrong.",
    401: "No valid login.",
    403: "The user may not do this.",
    404: "There is no such thing.",
    405: "The path does not have this method.",
    408: "The body was received too slowly.",
    409: "The thing is in use.",
    413: "The body is too large.",
    421: "The Host header is not an allowed name of this broker.",
    414: "The path is too long.",
    429: "Too many logins are waiting to be checked.",
    503: "The broker is busy or stopping.",
}
_LIST_QUERIES: Final = (
    ("columns", "Names of the columns to return, separated by commas."),
    ("sort", "The column to sort by."),
    ("sort_reverse", "true sorts from high to low."),
    ("page", "The page to return, from 1 on."),
    ("page_size", "Items on a page."),
    ("name", "Only items whose name contains this."),
    ("use_regex", "true takes `name` as a regular expression."),
    ("pagination", "true returns pages even when no page is named."),
)


def document(operations: Iterable[Operation]) -> dict[str, object]:
    paths: dict[str, dict[str, object]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Penstock management API", "version": penstock.__version__},
        "security": [{"basic": []}],
        "paths": paths,
        "components": {"securitySchemes": {"basic": {"type": "http", "scheme": "basic"}}},
    }


def _described(operation: Operation) -> dict[str, object]:
    described: dict[str, object] = {
        "summary": operation.summary,
        "tags": [operation.topic],
        "operationId": _operation_id(operation),
        "parameters": _parameters(operation),
        "responses": _responses(operation),
    }
    if operation.body is not None:
        described["requestBody"] = {
            "required": not operation.is_body_optional,
            "content": {kind: {"schema": operation.body} for kind in operation.body_types},
        }
    if operation.is_public:
        described["security"] = []
    return described


def _operation_id(operation: Operation) -> str:
    return f"{operation.method} {operation.path}".lower().replace(" ", "").replace("/", "_")


def _parameters(operation: Operation) -> list[dict[str, object]]:
    found: list[dict[str, object]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _PART.findall(operation.path)
    ]
    for query in operation.queries:
        found.append(_query(query.name, query.summary, query.schema, query.required))
    if operation.is_list:
        for name, summary in _LIST_QUERIES:
            schema = INTEGER if name in {"page", "page_size"} else TEXT
            found.append(_query(name, summary, schema, False))
    return found


def _query(name: str, summary: str, schema: Schema, required: bool) -> dict[str, object]:
    return {
        "name": name,
        "in": "query",
        "description": summary,
        "required": required,
        "schema": schema,
    }


def _responses(operation: Operation) -> dict[str, object]:
    responses: dict[str, object] = {}
    if operation.method in {"PUT", "PATCH", "DELETE"}:
        responses["201"] = {"description": "It was created."}
        responses["204"] = {"description": "It is done."}
    if operation.method in {"GET", "POST"} or operation.answers:
        schema = _optional(operation.answer)
        schema = _list_schema(schema) if operation.is_list else schema
        content = {operation.answer_type: {"schema": schema}}
        responses["200"] = {"description": "The answer.", "content": content}
    if operation.method == "POST":
        responses["201"] = {"description": "It was created."}
        responses["204"] = {"description": "It is done."}
    if operation.failure is not None:
        failure: Schema = {"anyOf": [operation.failure, _PROBLEM]}
        responses["503"] = _json("The check has failed, or the broker is busy.", failure)
    for status in operation.statuses:
        responses[str(status)] = {"description": "See the summary."}
    for status, why in _PROBLEMS.items():
        responses.setdefault(str(status), _json(why, _PROBLEM))
    return responses


def _optional(schema: Schema) -> Schema:
    """Of an answer: `columns` may leave out everything."""
    found = {key: value for key, value in schema.items() if key != "required"}
    properties = schema.get("properties")
    if isinstance(properties, dict):
        found["properties"] = {name: _optional(inner) for name, inner in properties.items()}
    return found


def _list_schema(row: Schema) -> Schema:
    page = object_of(
        {
            "total_count": COUNT,
            "filtered_count": COUNT,
            "item_count": COUNT,
            "page": COUNT,
            "page_count": COUNT,
            "page_size": COUNT,
            "items": list_of(row),
        }
    )
    return {"anyOf": [list_of(row), page]}


def _json(description: str, schema: Schema) -> dict[str, object]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}
