"""A selector: a text from a client and the condition it stands for."""

from penstock.broker.selectors.expressions import Expression
from penstock.broker.selectors.parser import Parser
from penstock.broker.selectors.subject import Subject


class Selector:
    """Held by whoever selects: a consumer, a stream's reader, a subscription, an upstream. It never
    changes; two of the same text are equal.
    """

    def __init__(self, text: str, condition: Expression, names: tuple[str, ...]) -> None:
        self.text: str = text
        self._condition: Expression = condition
        self._names: tuple[str, ...] = names

    @staticmethod
    def parse(text: str) -> "Selector":
        """Raises `SelectorError`. A text without a word selects everything, as in JMS."""
        parser = Parser(text)
        condition = parser.parse()
        return Selector(text, condition, tuple(parser.names))

    def matches(self, subject: Subject) -> bool:
        """A message for which the condition is unknown is not selected."""
        return self._condition.evaluate(subject) is True

    def names(self) -> tuple[str, ...]:
        """The names it asks for, in the order of the text, each once."""
        return self._names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selector) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Selector({self.text!r})"
