"""A short run of schemathesis against the document that the management API serves."""

import pytest

pytest.importorskip("schemathesis", reason="schemathesis is not installed")

from penstock import Broker
from tests.fuzz.api_document import document_of, drive, prepare

# Requests of each kind, to every operation; the long run is a command of its own.
EXAMPLES = 3


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_answer_is_an_internal_error_or_missing_in_the_document() -> None:
    with Broker(http=True) as broker:
        prepare(broker.http_url)
        findings = drive(broker.http_url, document_of(broker.http_url), EXAMPLES, 1, lambda: False)
    assert findings.failures == []
    assert findings.operation_count > 80
    assert {200, 201, 204, 400, 404} <= set(findings.statuses)


@pytest.mark.parametrize("lack", ["status", "body"])
def test_an_answer_that_the_document_does_not_have_is_found(lack: str) -> None:
    with Broker(http=True) as broker:
        whole = document_of(broker.http_url)
        path = "/api/users/{name}" if lack == "status" else "/api/whoami"
        planted = {**whole, "paths": {path: {"get": whole["paths"][path]["get"]}}}
        responses = planted["paths"][path]["get"]["responses"]
        if lack == "status":
            del responses["404"]
        else:
            responses["200"]["content"]["application/json"]["schema"] = {"type": "array"}
        findings = drive(broker.http_url, planted, EXAMPLES, 1, lambda: False)
    assert findings.failures
