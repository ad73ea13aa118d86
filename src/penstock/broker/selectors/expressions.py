"""Expressions that yield a value: names, literals and arithmetic.

Invariants
- An expression never changes; one serves any number of subjects.
- `evaluate` raises nothing, whatever a subject answers.
- A chain of operators of one precedence is one node with a list, never a tower of nodes, so the
  depth of an evaluation is bounded by the nesting that was written.
"""

from abc import ABC, abstractmethod
from enum import Enum

from penstock.broker.selectors.subject import Subject
from penstock.broker.selectors.values import Operator, calculate


class Sort(Enum):
    """What an expression is known to yield before it meets a subject; what an error calls it."""

    ANYTHING = "a value"
    CONDITION = "a condition"
    NUMBER = "a number"
    TEXT = "a string"


class Expression(ABC):
    """A node of a parsed selector, held by the node above it."""

    def __init__(self, sort: Sort) -> None:
        self.sort: Sort = sort

    @abstractmethod
    def evaluate(self, subject: Subject) -> object:
        """A value as `values` describes them; None is NULL, or a condition that is unknown."""


class Name(Expression):
    def __init__(self, name: str) -> None:
        super().__init__(Sort.ANYTHING)
        self.name: str = name

    def evaluate(self, subject: Subject) -> object:
        return subject.value_of(self.name)


class Literal(Expression):
    def __init__(self, sort: Sort, value: object) -> None:
        super().__init__(sort)
        self.value: object = value

    def evaluate(self, subject: Subject) -> object:
        return self.value


class Signed(Expression):
    """An operand with one sign or several before it."""

    def __init__(self, operand: Expression, is_negative: bool) -> None:
        super().__init__(Sort.NUMBER)
        self._operand: Expression = operand
        self._operator: Operator = Operator.SUBTRACT if is_negative else Operator.ADD

    def evaluate(self, subject: Subject) -> object:
        return calculate(self._operator, 0, self._operand.evaluate(subject))


class Calculation(Expression):
    """Operands with operators of one precedence between them, from left to right."""

    def __init__(self, operands: list[Expression], operators: list[Operator]) -> None:
        super().__init__(Sort.NUMBER)
        assert len(operands) == len(operators) + 1, "an operator stands between two operands"
        self._operands: list[Expression] = operands
        self._operators: list[Operator] = operators

    def evaluate(self, subject: Subject) -> object:
        operands = self._operands
        result = operands[0].evaluate(subject)
        for index, operator in enumerate(self._operators, 1):
            result = calculate(operator, result, operands[index].evaluate(subject))
        return result
