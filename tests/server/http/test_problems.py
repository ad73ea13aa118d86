"""Answers as JSON."""

import json
import math

from penstock.server.http.problems import JsonAnswer


def test_floats_that_are_no_numbers_are_texts_because_json_has_no_place_for_them() -> None:
    answer = JsonAnswer({"a": [math.nan, -math.inf, 1.5], "b": {"c": math.inf}})
    assert json.loads(bytes(answer.body)) == {"a": ["nan", "-inf", 1.5], "b": {"c": "inf"}}
