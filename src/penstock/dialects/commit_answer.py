"""Who answers a commit: when all of it is done and nobody holds any of its messages."""

from mypy_extensions import mypyc_attr

from penstock.broker.message import Publisher


@mypyc_attr(allow_interpreted_subclasses=True)
class CommitAnswer(Publisher):
    """The publisher of all messages of one transaction. Held by those that are held."""

    def __init__(self) -> None:
        self._holds: int = 0
        self._is_done: bool = False
        self._is_refused: bool = False
        # Set when the client was answered: what becomes of holds does not matter any more.
        self.is_given: bool = False

    def held(self, sequence: int) -> None:
        self._holds += 1

    def completed(self, sequence: int) -> None:
        self._holds -= 1
        self._answer_if_complete()

    def refused(self, sequence: int) -> None:
        self._is_refused = True

    def finish(self) -> None:
        """Everything is done."""
        self._is_done = True
        self._answer_if_complete()

    def _answer_if_complete(self) -> None:
        if self._is_done and self._holds == 0 and not self.is_given:
            self.is_given = True
            self.answer(self._is_refused)

    def answer(self, is_refused: bool) -> None:
        """Tell the client, once. A queue may have refused a message after the commit: the others
        stand then.
        """
        raise NotImplementedError
