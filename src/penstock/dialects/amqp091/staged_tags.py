"""Delivery tags whose settlement waits for the commit of a transaction.

A tag is settled once: from the acknowledgement on it is spoken for, also while the transaction is
open, and a second one is refused when it comes and not in the middle of the commit.
"""


class StagedTags:
    """Held by a channel's transaction; a new one after each commit and rollback."""

    def __init__(self) -> None:
        self._tags: set[int] = set()
        # Everything up to here, by an acknowledgement of many.
        self._up_to: int = 0

    def holds(self, tag: int) -> bool:
        return tag <= self._up_to or tag in self._tags

    def add(self, tag: int, multiple: bool) -> None:
        if not multiple:
            self._tags.add(tag)
        elif tag > self._up_to:
            self._up_to = tag
