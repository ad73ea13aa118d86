"""The document covers every path of the API, and says what a page takes."""

from __future__ import annotations

import asyncio
from typing import cast

from starlette.routing import Route

from penstock.server.http.api.openapi import document
from penstock.server.http.api.operation import ANYBODY, ApiRequest, Operation
from penstock.server.http.api.schema import TEXT, object_of
from penstock.server.http.application import routes_and_document
from penstock.server.http.line import BrokerLine
from penstock.server.http.login import Doorkeeper
from penstock.server.logins import ThreadedLoginChecker
from penstock.server.server import Server

# Not part of the API, or the document itself.
OTHERS = {"/api/openapi.json"}


async def nothing(call: ApiRequest) -> object:
    return {}


def test_every_route_under_api_is_in_the_document() -> None:
    loop = asyncio.new_event_loop()
    try:
        line = BrokerLine(cast("Server", None), loop)
        door = Doorkeeper(line, cast("ThreadedLoginChecker", None))
        routes, described = routes_and_document(line, door, None)
    finally:
        loop.close()
    paths = described["paths"]
    assert isinstance(paths, dict)
    served = {
        (route.path, method.lower())
        for route in routes
        if isinstance(route, Route) and route.path.startswith("/api/")
        for method in (route.methods or {"GET"})
        if method != "HEAD" and route.path not in OTHERS
    }
    assert served == {(path, method) for path in paths for method in paths[path]}


def test_an_operation_says_its_body_its_media_types_and_whether_a_login_is_needed() -> None:
    body = object_of({"name": TEXT})
    described = document(
        [
            Operation(
                "POST",
                "/api/x/{part}",
                nothing,
                "X",
                "x",
                ANYBODY,
                body,
                is_public=True,
                body_types=("text/x",),
                failure=object_of({"status": TEXT}),
            )
        ]
    )
    paths = described["paths"]
    assert isinstance(paths, dict)
    operation = paths["/api/x/{part}"]["post"]
    assert operation["requestBody"] == {"required": True, "content": {"text/x": {"schema": body}}}
    assert operation["security"] == []
    assert operation["parameters"][0]["name"] == "part"
    assert "anyOf" in operation["responses"]["503"]["content"]["application/json"]["schema"]
    # `columns` may leave out every key of an answer.
    assert "required" not in operation["responses"]["200"]["content"]["application/json"]["schema"]
