"""What is replicated, as a primary and a backup see it.

*Invariant* (I4 of the protocol): the state is at every moment what the root of epoch e had after k
whole operations, where (e, k) is `syn`. A SYNC is staged beside it and takes effect in one record.
"""

from abc import ABC, abstractmethod

from mypy_extensions import mypyc_attr

from penstock.ha.id_ranges import IdRanges, IdSets


class OperationParts:
    """What one operation changes."""

    def __init__(self) -> None:
        # Queue number, first id, count.
        self.enqueued: list[tuple[int, int, int]] = []
        self.dequeued: list[tuple[int, int, int]] = []
        # Numbers of the queues that it deletes, with everything in them.
        self.gone: list[int] = []
        # Texts of changes to definitions, in order.
        self.changes: list[bytes] = []


@mypyc_attr(allow_interpreted_subclasses=True)
class ReplicatedState(ABC):
    """Owned by a node. What a peer sent and cannot be read raises `BadPeerMessage` and changes
    nothing.
    """

    @abstractmethod
    def syn(self) -> tuple[int, int]:
        """Epoch and k of the state in memory."""

    @abstractmethod
    def durable_syn(self) -> tuple[int, int]:
        """Epoch and k that would be there after a crash: what may be acknowledged."""

    @abstractmethod
    def held(self) -> IdSets:
        """Ids of the state and of what is staged."""

    @abstractmethod
    def begin_root(self, epoch: int) -> int:
        """The state becomes position 0 of the epoch; what is staged is discarded. Called before a
        `Primary` is made. Returns the position of the journal behind the record of that.
        """

    @abstractmethod
    def ids(self) -> IdSets:
        """Of the state after the last whole operation."""

    @abstractmethod
    def values(self) -> bytes:
        """Everything that can change under an id: the definitions."""

    @abstractmethod
    def begin_reading(self) -> None:
        """What is read from now on is of this moment, until the next call or the end of the tick."""

    @abstractmethod
    def read(self, number: int, wanted: IdRanges, octets_max: int) -> tuple[bytes, int]:
        """Message records of one queue in ascending order, from the first wanted id on, about so
        many octets. Leaves out what is gone. Returns also the first id that was not looked at
        (0: none is left).
        """

    def first_uncommitted(self) -> dict[int, int]:
        """By queue number, the first id that is not committed, or else the next that will be given:
        where a guard begins. A root is asked.
        """
        return {}

    @abstractmethod
    def apply(self, operation: bytes) -> None:
        """A whole operation; its k is the one after `syn`, in the same epoch. Asks for a flush."""

    def apply_received(self, octets: bytes, start: int, checksum: int) -> None:
        """The same for an operation that follows a place in the octets of a message, and whose
        checksum is known.
        """
        self.apply(octets[start:])

    @abstractmethod
    def parts(self, operation: bytes) -> OperationParts:
        """What an operation changes; nothing is applied."""

    @abstractmethod
    def stage_operation(self, operation: bytes) -> None:
        """Stage the messages of an operation. Asks for a flush."""

    @abstractmethod
    def stage_piece(self, records: bytes, missing: IdSets) -> IdSets:
        """Stage those records whose ids are missing and return the ids of these. Asks for a flush."""

    @abstractmethod
    def finish(
        self, epoch: int, k: int, target: IdSets, values: bytes, changes: list[bytes]
    ) -> None:
        """SYNC-DONE: in one record the state becomes the target, with the values and the changes to
        them since, and `syn` becomes (epoch, k). Everything else is gone. Asks for a flush.
        """
