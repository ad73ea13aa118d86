"""Values of field tables as JSON."""

import json
from decimal import Decimal

import pytest

from penstock.broker.header_values import Long, Timestamp
from penstock.server.http.api.message_rows import (
    JSON_BYTES_MAX,
    BodyForm,
    payload_row,
    plain,
)


def test_every_value_of_a_field_table_is_valid_json() -> None:
    table = {
        "nan": float("nan"),
        "infinite": float("inf"),
        "decimal": Decimal("1.5"),
        "time": Timestamp(7),
        "long": Long(8),
        "text": b"text",
        "octets": b"\xff",
        "list": [b"\xfe", {"inner": Timestamp(9)}],
    }
    shown = plain(table)
    assert json.loads(json.dumps(shown, allow_nan=False)) == {
        "nan": "nan",
        "infinite": "inf",
        "decimal": 1.5,
        "time": 7,
        "long": 8,
        "text": "text",
        "octets": "/w==",
        "list": ["/g==", {"inner": 9}],
    }


@pytest.mark.parametrize(
    ("size", "encoding"), [(JSON_BYTES_MAX, "json"), (JSON_BYTES_MAX + 1, "string")]
)
def test_a_body_beyond_the_limit_is_shown_as_text_instead_of_json(size: int, encoding: str) -> None:
    """Reading JSON holds up everybody else."""
    body = b'"' + b"x" * (size - 2) + b'"'
    assert payload_row(body, BodyForm.JSON, len(body))["payload_encoding"] == encoding
