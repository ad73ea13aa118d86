"""What every answer is measured by, whatever its protocol."""

from collections import Counter


class WrongAnswer(Exception):
    """An answer that no client should ever get."""


class Verdict:
    """Counts what the server answered. Held by one worker."""

    def __init__(self) -> None:
        self.answers: Counter[str] = Counter()

    def count(self, answer: str) -> None:
        self.answers[answer] += 1
