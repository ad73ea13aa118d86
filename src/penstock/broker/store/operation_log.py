"""The stream of operations as the message store sees it.

One tick of a cluster's root is one operation: the part of its batch that says what changed. It is
encoded once, and the journal and every backup get the same octets. There is no call per message.
"""

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class OperationLog:
    """Held by the message store of a root; a server without a cluster, or a backup, has none."""

    def next_number(self) -> tuple[int, int]:
        """Epoch and k of the operation that is about to be written."""
        raise NotImplementedError

    def wrote(self, pieces: list[bytes], size: int, position: int) -> None:
        """The operation was appended to the journal, which now ends at this position. Its octets
        are the pieces one after the other; they are not joined where they are long.
        """
        raise NotImplementedError

    def wrote_summed(self, operation: bytes, position: int, checksum: int) -> None:
        """The same for an operation in one piece whose checksum is known."""
        self.wrote([operation], len(operation), position)

    def wrote_housekeeping(self, position: int) -> None:
        """A tick was appended that changed nothing replicated."""
        raise NotImplementedError
