"""Expressions that are true, false or unknown (None).

    AND    T F U      OR     T F U      NOT
    T      T F U      T      T T T      T  F
    F      F F F      F      T F U      F  T
    U      U F U      U      T U U      U  U

An operand that is not a boolean, because a header holds something else, counts as unknown.
"""

from penstock.broker.selectors.expressions import Expression, Sort
from penstock.broker.selectors.like import LikePattern
from penstock.broker.selectors.subject import Subject
from penstock.broker.selectors.values import (
    AFTER,
    BEFORE,
    SAME,
    approximate,
    is_equal,
    is_unequal,
    order,
)


class Condition(Expression):
    def __init__(self) -> None:
        super().__init__(Sort.CONDITION)


class And(Condition):
    def __init__(self, operands: list[Expression]) -> None:
        super().__init__()
        self._operands: list[Expression] = operands

    def evaluate(self, subject: Subject) -> object:
        result: object = True
        for operand in self._operands:
            value = operand.evaluate(subject)
            if value is False:
                return False
            if value is not True:
                result = None
        return result


class Or(Condition):
    def __init__(self, operands: list[Expression]) -> None:
        super().__init__()
        self._operands: list[Expression] = operands

    def evaluate(self, subject: Subject) -> object:
        result: object = False
        for operand in self._operands:
            value = operand.evaluate(subject)
            if value is True:
                return True
            if value is not False:
                result = None
        return result


class Not(Condition):
    def __init__(self, operand: Expression) -> None:
        super().__init__()
        self._operand: Expression = operand

    def evaluate(self, subject: Subject) -> object:
        value = self._operand.evaluate(subject)
        if value is True:
            return False
        return True if value is False else None


class Equality(Condition):
    """`=` and `<>`."""

    def __init__(self, left: Expression, right: Expression, is_negated: bool) -> None:
        super().__init__()
        self._left: Expression = left
        self._right: Expression = right
        self._is_negated: bool = is_negated

    def evaluate(self, subject: Subject) -> object:
        left = self._left.evaluate(subject)
        right = self._right.evaluate(subject)
        if left is None or right is None:
            return None
        return is_unequal(left, right) if self._is_negated else is_equal(left, right)


class Comparison(Condition):
    """`<`, `<=`, `>` and `>=`, by the order they ask for and whether equal values will do."""

    def __init__(self, left: Expression, right: Expression, wanted: int, or_same: bool) -> None:
        super().__init__()
        self._left: Expression = left
        self._right: Expression = right
        self._wanted: int = wanted
        self._or_same: bool = or_same

    def evaluate(self, subject: Subject) -> object:
        left = self._left.evaluate(subject)
        right = self._right.evaluate(subject)
        return _compare(left, right, self._wanted, self._or_same)


class Between(Condition):
    """`x >= low AND x <= high`; negated it is `x < low OR x > high`, which for values of unlike
    kinds is false as well.
    """

    def __init__(
        self, operand: Expression, low: Expression, high: Expression, is_negated: bool
    ) -> None:
        super().__init__()
        self._operand: Expression = operand
        self._low: Expression = low
        self._high: Expression = high
        self._is_negated: bool = is_negated

    def evaluate(self, subject: Subject) -> object:
        # Once for both comparisons: nested, twice would double with every level.
        value = self._operand.evaluate(subject)
        low = self._low.evaluate(subject)
        high = self._high.evaluate(subject)
        # The verdict that either comparison can reach alone.
        decisive = self._is_negated
        if decisive:
            at_low = _compare(value, low, BEFORE, False)
            at_high = _compare(value, high, AFTER, False)
        else:
            at_low = _compare(value, low, AFTER, True)
            at_high = _compare(value, high, BEFORE, True)
        if at_low is decisive or at_high is decisive:
            return decisive
        return None if at_low is None or at_high is None else not decisive


class In(Condition):
    """The items are literals, so a look-up answers for all of them. NOT IN is this with NOT."""

    def __init__(self, operand: Expression, items: list[object]) -> None:
        super().__init__()
        self._operand: Expression = operand
        # Separated by kind, because 1, 1.0 and TRUE are one key to Python.
        self._texts: set[str] = set()
        self._exact: set[int] = set()
        self._approximate: set[float] = set()
        # The exact ones, converted for comparison with an approximate value.
        self._promoted: set[float] = set()
        self._has_true: bool = False
        self._has_false: bool = False
        for item in items:
            self._add(item)

    def _add(self, item: object) -> None:
        if isinstance(item, str):
            self._texts.add(item)
        elif isinstance(item, bool):
            self._has_true = self._has_true or item
            self._has_false = self._has_false or not item
        elif isinstance(item, int):
            self._exact.add(item)
            self._promoted.add(approximate(item))
        else:
            assert isinstance(item, float), "an item is a literal"
            self._approximate.add(item)

    def evaluate(self, subject: Subject) -> object:
        value = self._operand.evaluate(subject)
        if isinstance(value, str):
            return value in self._texts
        if value is None:
            return None
        if isinstance(value, bool):
            return self._has_true if value else self._has_false
        if isinstance(value, int):
            return value in self._exact or approximate(value) in self._approximate
        if isinstance(value, float):
            return value in self._approximate or value in self._promoted
        return False


class Like(Condition):
    """Unknown for a value that is not a string, so that NOT LIKE does not select it either."""

    def __init__(self, operand: Expression, pattern: LikePattern) -> None:
        super().__init__()
        self._operand: Expression = operand
        self._pattern: LikePattern = pattern

    def evaluate(self, subject: Subject) -> object:
        value = self._operand.evaluate(subject)
        return self._pattern.matches(value) if isinstance(value, str) else None


class IsNull(Condition):
    """Never unknown."""

    def __init__(self, operand: Expression, is_negated: bool) -> None:
        super().__init__()
        self._operand: Expression = operand
        self._is_negated: bool = is_negated

    def evaluate(self, subject: Subject) -> object:
        return (self._operand.evaluate(subject) is None) != self._is_negated


def _compare(left: object, right: object, wanted: int, or_same: bool) -> bool | None:
    if left is None or right is None:
        return None
    found = order(left, right)
    return found == wanted or (found == SAME and or_same)
