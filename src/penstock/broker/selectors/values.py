"""What a selector can say about two values: whether they are equal, which comes first, their sum.

Values are str, bool, int (exact) and float (approximate). None is NULL, or unknown. Anything else
(octets, lists, tables) exists, but equals no other value.

- Exact and approximate numbers meet as approximate ones, as Java promotes them.
- Exact division cuts towards zero. A division by zero is unknown.
- An exact result beyond 64 bits goes on as an approximate one, so no expression can grow numbers.
"""

import math
from enum import Enum
from typing import Final

from penstock.broker.selectors.numerals import EXACT_MAX


class Operator(Enum):
    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    REMAINDER = "%"


# Results of `order`.
BEFORE: Final = -1
SAME: Final = 0
AFTER: Final = 1
UNORDERED: Final = 2


def is_equal(left: object, right: object) -> bool:
    """Of values that are not NULL. Values of kinds that are not alike are not equal."""
    if isinstance(left, str):
        return isinstance(right, str) and left == right
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return order(left, right) == SAME


def is_unequal(left: object, right: object) -> bool:
    """Of values that are not NULL. Values of kinds that are not alike are not unequal either: in
    JMS every comparison of them is false.
    """
    if isinstance(left, str):
        return isinstance(right, str) and left != right
    if isinstance(left, bool) or isinstance(right, bool):
        return isinstance(left, bool) and isinstance(right, bool) and left is not right
    return _is_number(left) and _is_number(right) and order(left, right) != SAME


def order(left: object, right: object) -> int:
    """Numbers by size, strings by code points; booleans and unlike kinds are `UNORDERED`."""
    if isinstance(left, bool) or isinstance(right, bool):
        return UNORDERED
    if isinstance(left, int):
        if isinstance(right, int):
            return BEFORE if left < right else SAME if left == right else AFTER
        if isinstance(right, float):
            return _order_approximate(approximate(left), right)
    elif isinstance(left, float):
        if isinstance(right, float):
            return _order_approximate(left, right)
        if isinstance(right, int):
            return _order_approximate(left, approximate(right))
    elif isinstance(left, str) and isinstance(right, str):
        return SAME if left == right else BEFORE if left < right else AFTER
    return UNORDERED


def calculate(operator: Operator, left: object, right: object) -> object:
    """Unknown (None) unless both are numbers."""
    if isinstance(left, bool) or isinstance(right, bool):
        return None
    if isinstance(left, int):
        if isinstance(right, int):
            return _calculate_exact(operator, left, right)
        if isinstance(right, float):
            return _calculate_approximate(operator, approximate(left), right)
    elif isinstance(left, float):
        if isinstance(right, float):
            return _calculate_approximate(operator, left, right)
        if isinstance(right, int):
            return _calculate_approximate(operator, left, approximate(right))
    return None


def approximate(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        # No wire carries such a number, but a subject may make one up.
        return math.inf if number > 0 else -math.inf


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _order_approximate(left: float, right: float) -> int:
    if left < right:
        return BEFORE
    if left == right:
        return SAME
    # NaN has no place in the order.
    return AFTER if left > right else UNORDERED


def _calculate_exact(operator: Operator, left: int, right: int) -> object:
    result: int
    if operator is Operator.ADD:
        result = left + right
    elif operator is Operator.SUBTRACT:
        result = left - right
    elif operator is Operator.MULTIPLY:
        result = left * right
    elif right == 0:
        return None
    else:
        quotient = abs(left) // abs(right)
        if (left < 0) != (right < 0):
            quotient = -quotient
        result = quotient if operator is Operator.DIVIDE else left - quotient * right
    if -EXACT_MAX <= result <= EXACT_MAX:
        return result
    return approximate(result)


def _calculate_approximate(operator: Operator, left: float, right: float) -> object:
    if operator is Operator.ADD:
        return left + right
    if operator is Operator.SUBTRACT:
        return left - right
    if operator is Operator.MULTIPLY:
        return left * right
    if right == 0.0:
        return None
    if operator is Operator.DIVIDE:
        return left / right
    # The remainder of infinity is undefined.
    return None if math.isinf(left) else math.fmod(left, right)
