"""Expressions that are true, false or unknown (None).

    AND    T F U      OR     T F U      NOT
    T      T F U      T      T T T      T  F
    F      F F F      F      T F U      F  T
    U      U F U      U      T U U      U  U

An operand that is no boolean, because a header holds something else, counts as unknown.
"""

from penstock.broker.selectors.expressions import Expression, Sort
from penstock.broker.selectors.like import LikePattern
from penstock.broker.selectors.subject import Subject
from penstock.broker.selectors.values import AFTER, BEFORE, SAME, is_equal, is_unequal, order


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
        if left is None or right is None:
            return None
        found = order(left, right)
        return found == self._wanted or (found == SAME and self._or_same)


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
        value = self._operand.evaluate(subject)
        if value is None:
            return None
        low = self._low.evaluate(subject)
        high = self._high.evaluate(subject)
        is_negated = self._is_negated
        is_unknown = False
        if low is None:
            is_unknown = True
        else:
            found = order(value, low)
            if is_negated:
                if found == BEFORE:
                    return True
            elif found not in {SAME, AFTER}:
                return False
        if high is None:
            is_unknown = True
        else:
            found = order(value, high)
            if is_negated:
                if found == AFTER:
                    return True
            elif found not in {SAME, BEFORE}:
                return False
        return None if is_unknown else not is_negated


class In(Condition):
    """The items are literals, so one look-up answers for all. NOT IN is the negation of this."""

    def __init__(self, operand: Expression, items: list[object]) -> None:
        super().__init__()
        self._operand: Expression = operand
        # Apart, because 1 and TRUE are one key to Python.
        self._texts: set[str] = {item for item in items if isinstance(item, str)}
        self._others: list[object] = [item for item in items if not isinstance(item, str)]

    def evaluate(self, subject: Subject) -> object:
        value = self._operand.evaluate(subject)
        if value is None:
            return None
        if isinstance(value, str):
            return value in self._texts
        for item in self._others:
            if is_equal(value, item):
                return True
        return False


class Like(Condition):
    """Unknown for what is no string, so that NOT LIKE does not select it either."""

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
