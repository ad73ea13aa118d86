"""A short run of schemathesis against the document that the management API serves."""

import pytest

pytest.importorskip("schemathesis", reason="schemathesis is not installed")

from penstock import Broker
from tests.fuzz.api_document import drive, prepare

# Requests of each kind, to every operation; the long run is a command of its own.
EXAMPLES = 3


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_answer_is_an_internal_error_or_missing_in_the_document() -> None:
    with Broker(http=True) as broker:
        prepare(broker.http_url)
        findings = drive(broker.http_url, EXAMPLES, 1, lambda: False)
    assert findings.failures == []
    assert findings.operation_count > 80
    assert {200, 201, 204, 400, 404} <= set(findings.statuses)
