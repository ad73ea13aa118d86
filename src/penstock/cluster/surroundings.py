"""What an election needs of its owner, which joins it to links and replication."""

from abc import ABC, abstractmethod

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class PeerLines(ABC):
    """Sends control messages. A message to a server without a link is dropped: all of them are
    repeated.
    """

    @abstractmethod
    def send(self, name: str, kind: int, octets: bytes) -> None:
        """Does not call the election back."""

    @abstractmethod
    def connected(self) -> list[str]:
        """The servers to which there is a link now."""


@mypyc_attr(allow_interpreted_subclasses=True)
class BackupProgress(ABC):
    """How far the root's stream of operations is, and each backup in it. Asked by a root only, and
    only after `ElectionListener.won`.
    """

    @abstractmethod
    def acked_k(self, name: str) -> int:
        """The highest operation that a backup has acknowledged; -1: not synced in this epoch."""

    @abstractmethod
    def joined_store(self, name: str) -> bytes:
        """With which store a server has joined in this epoch, whose acknowledgements these are;
        empty if it has not.
        """

    @abstractmethod
    def behind_since(self, name: str) -> int:
        """When it fell behind, first joined, or last made progress since then, whichever is
        latest; -1: it is not behind, or has not joined.
        """

    @abstractmethod
    def oldest_unacked_made_at(self, name: str) -> int:
        """When the oldest operation was made that it has not acknowledged; -1: there is none."""

    @abstractmethod
    def is_syncing(self, name: str) -> bool:
        """Whether a SYNC to it is under way."""

    @abstractmethod
    def committed_k(self) -> int:
        """-1 until position 0, the inherited state, is committed."""

    @abstractmethod
    def last_k(self) -> int:
        """The last operation that was made; 0 at the beginning of an epoch."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ElectionListener(ABC):
    """The owner of an election. It is called at the end of the call that caused it, when the
    election's state is consistent, and may call the election back.
    """

    @abstractmethod
    def won(self, epoch: int, now: int) -> None:
        """This server is the root of an epoch, and recovering: promote the state."""

    @abstractmethod
    def became_active(self, now: int) -> None:
        """Position 0 is committed: serve clients, while `may_serve` says so."""

    @abstractmethod
    def stepped_down(self, reason: str, now: int) -> None:
        """This server is not the root any more: stop at once."""

    @abstractmethod
    def follows(self, root_name: str, epoch: int, now: int) -> None:
        """Join this root; with an empty name, end what was joined before. The epoch is durable, so
        JOIN and ACK may leave.
        """

    @abstractmethod
    def in_sync_changed(self, now: int) -> None:
        """The record changed, was committed, or other servers are waited for."""

    @abstractmethod
    def disk_is_slow(self, now: int) -> bool:
        """R15: whether a flush of the journal has been running for longer than `disk_ms`, or the
        owner knows that its event loop lagged.
        """

    @abstractmethod
    def role_changed(self, role: str, reason: str, now: int) -> None:
        """For the log. Also with an unchanged role, if a change was refused or given up."""

    @abstractmethod
    def promises_failed(self, reason: str, now: int) -> None:
        """The disk cannot be trusted any more: stop the process."""
