"""Values of field tables as JSON."""

import json
from decimal import Decimal

from penstock.broker.header_values import Long, Timestamp
from penstock.server.http.api.message_rows import plain


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
