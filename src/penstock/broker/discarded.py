"""Long lists that nobody needs any more, freed a part at a time.

Freeing a million messages takes a tenth of a second. A purge, or a finished commit, leaves its list
here, and every tick frees some of it.
"""

from typing import Final, TypeVar, cast

Item = TypeVar("Item")

# Freed in one tick: about three milliseconds.
STEP_COUNT: Final = 16_384
# Shorter lists are freed at once.
KEPT_COUNT_MIN: Final = 16_384


class Discarded:
    """Held by the broker's state, and by its virtual hosts."""

    def __init__(self) -> None:
        self._lists: list[list[object]] = []

    def add(self, items: list[Item]) -> None:
        """The caller keeps no reference to the list."""
        if len(items) >= KEPT_COUNT_MIN:
            self._lists.append(cast("list[object]", items))

    def is_empty(self) -> bool:
        return not self._lists

    def step(self) -> None:
        """Free a part of what is there."""
        if self._lists:
            items = self._lists[len(self._lists) - 1]
            del items[max(len(items) - STEP_COUNT, 0) :]
            if not items:
                self._lists.pop()
