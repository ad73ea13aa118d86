"""What a selector asks: the value that a name has in one message, or in whatever is selected."""

from abc import ABC, abstractmethod

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Subject(ABC):
    """Implemented by callers; a selector keeps no reference to it."""

    @abstractmethod
    def value_of(self, name: str) -> object | None:
        """A str, bool, int or float; None for NULL, when there is no such value. A value of another
        type exists but equals nothing.
        """
