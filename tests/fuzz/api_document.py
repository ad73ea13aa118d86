"""The management API against the document that it serves at /api/openapi.json.

schemathesis makes requests that fit the document, and requests that do not. No answer may be an
internal error, and none may have a status, a media type or a body that the document does not have.

    python -m tests.fuzz.api_document --seconds 300
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import httpx
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import load_all_checks
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from penstock import Broker

if TYPE_CHECKING:
    from collections.abc import Callable

    from schemathesis import Case
    from schemathesis.schemas import APIOperation

LOGIN: Final = ("guest", "guest")
# Names that exist, so that requests reach more than "there is no such thing". Which parts of which
# request get one follows from what schemathesis has drawn.
KNOWN: Final[dict[str, tuple[str, ...]]] = {
    "vhost": ("%2F", "fuzzed"),  # as it stands in a path
    "name": ("q", "e", "amq.topic", "amq.default", "u"),
    "queue": ("q", "s"),
    "user": ("u",),
    "source": ("e", "amq.topic"),
    "destination": ("e", "amq.fanout"),
    "properties_key": ("~", "k"),
    "limit": ("max-connections", "max-queues", "max-channels"),
    "component": ("vhost-limits", "operator_policy"),
    "unit": ("days",),
    "within": ("1",),
    "port": ("5672", "1"),
}
# Of ten, so many parts of a path keep what was drawn.
DRAWN_OF_TEN: Final = 4
REQUEST_SECONDS: Final = 60
# Checks that answer 503 when they fail, which their description says.
FAILING_CHECKS: Final = "/api/health/checks/"


@dataclass(slots=True)
class Findings:
    """What a run has seen. Held by who runs it."""

    statuses: Counter[int] = field(default_factory=Counter)
    operation_count: int = 0
    failures: list[str] = field(default_factory=list)


def prepare(url: str) -> None:
    """Things for requests to meet."""
    for method, path, body in (
        ("PUT", "/api/vhosts/fuzzed", {}),
        ("PUT", "/api/users/u", {"password": "p", "tags": "management"}),
        ("PUT", "/api/queues/%2F/q", {"durable": True}),
        ("PUT", "/api/queues/%2F/s", {"durable": True, "arguments": {"x-queue-type": "stream"}}),
        ("PUT", "/api/exchanges/%2F/e", {"type": "topic", "durable": True}),
        ("POST", "/api/bindings/%2F/e/e/q/q", {"routing_key": "k"}),
    ):
        httpx.request(
            method, url + path, json=body, auth=LOGIN, timeout=REQUEST_SECONDS
        ).raise_for_status()


def document_of(url: str) -> dict[str, Any]:
    found = httpx.get(f"{url}/api/openapi.json", timeout=REQUEST_SECONDS).json()
    assert isinstance(found, dict)
    return found


def drive(
    url: str,
    document: dict[str, Any],
    examples: int,
    first_seed: int,
    is_over: Callable[[], bool],
) -> Findings:
    """So many requests of each kind to every operation of the document."""
    load_all_checks()
    schema = schemathesis.openapi.from_dict(document)
    findings = Findings()
    operations = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
    random.Random(first_seed).shuffle(operations)
    for operation in operations:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            if is_over():
                return findings
            _drive_one(url, operation, mode, examples, first_seed, findings)
        findings.operation_count += 1
    return findings


def _drive_one(
    url: str,
    operation: APIOperation[Any, Any, Any, Any],
    mode: GenerationMode,
    examples: int,
    first_seed: int,
    findings: Findings,
) -> None:
    @seed(first_seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Case[Any]) -> None:
        _name_known(case)
        response = case.call(base_url=url, auth=LOGIN, timeout=REQUEST_SECONDS)
        findings.statuses[response.status_code] += 1
        may_fail = operation.path.startswith(FAILING_CHECKS) and response.status_code == 503
        assert response.status_code < 500 or may_fail, response.text
        case.validate_response(
            response,
            checks=[
                status_code_conformance,
                content_type_conformance,
                response_schema_conformance,
                response_headers_conformance,
            ],
        )

    try:
        ask()
    except Unsatisfiable:
        # There is no request to this operation that does not fit the document.
        pass
    except (Exception, BaseExceptionGroup) as failure:
        # One of them is not the end of the run: the others are wanted as well.
        findings.failures.append(f"{operation.label} ({mode.value}): {failure}")


def _name_known(case: Case[Any]) -> None:
    parts = case.path_parameters
    for part, names in KNOWN.items():
        if part in parts:
            drawn = zlib.crc32(repr((part, parts[part], case.body)).encode())
            if drawn % 10 >= DRAWN_OF_TEN:
                parts[part] = names[drawn % len(names)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--examples", type=int, default=50, help="of each kind, per operation")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    ends_at = time.monotonic() + arguments.seconds
    total = Findings()
    round_seed = arguments.seed
    with Broker(http=True) as broker:
        prepare(broker.http_url)
        while time.monotonic() < ends_at:
            found = drive(
                broker.http_url,
                document_of(broker.http_url),
                arguments.examples,
                round_seed,
                lambda: time.monotonic() >= ends_at,
            )
            total.statuses.update(found.statuses)
            total.operation_count += found.operation_count
            for failure in found.failures:
                print(f"seed {round_seed}: {failure}", flush=True)
            total.failures.extend(found.failures)
            round_seed += 1
    print(
        f"{sum(total.statuses.values())} requests, statuses {dict(sorted(total.statuses.items()))}"
    )
    print(f"{total.operation_count} operations, {len(total.failures)} failures")
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
