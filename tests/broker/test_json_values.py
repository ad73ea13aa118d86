"""Values that can be arguments and parameters."""

import pytest

from penstock.broker.json_values import DEPTH_MAX, value_fault


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value", [None, True, 1.5, "text", 2**63 - 1, [1, {"a": []}], nested(DEPTH_MAX - 1)]
)
def test_a_value_that_can_be_carried_has_no_fault(value: object) -> None:
    assert value_fault(value, 1) == ""


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (2**63, "needs more than 64 bits"),
        (float("inf"), "is not a finite number; the largest is about 1.8e308"),
        ([float("nan")], "is not a finite number; the largest is about 1.8e308"),
        (["\ud800"], "is not a valid Unicode string"),
        ({"k" * 256: 1}, "its key is longer than 255 bytes"),
        ({1: 1}, "must be a string, not the number 1"),
        (nested(DEPTH_MAX), f"is nested deeper than {DEPTH_MAX} levels"),
        (b"octets", "a value of type bytes is not a JSON value"),
    ],
)
def test_a_value_that_cannot_is_told_why(value: object, fault: str) -> None:
    assert value_fault(value, 1) == fault
