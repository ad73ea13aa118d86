"""A subject out of a dictionary."""

from penstock.broker.selectors.parser import Parser
from penstock.broker.selectors.subject import Subject


class TableSubject(Subject):
    def __init__(self, **values: object) -> None:
        self.values = values
        self.asked: list[str] = []

    def value_of(self, name: str) -> object | None:
        self.asked.append(name)
        return self.values.get(name)


def evaluated(text: str, subject: Subject) -> object:
    """What the whole expression yields: True, False or None for unknown."""
    return Parser(text).parse().evaluate(subject)
