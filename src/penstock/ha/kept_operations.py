"""The last operations of a primary: for backups that are behind, and for those that resume."""

from typing import Final

from penstock.ha.limits import OPERATION_OVERHEAD_BYTES

# Dropped operations leave the list when they are many, so that dropping one moves nothing.
_DROPPED_MAX: Final = 1024
# An operation whose time is not known yet: it was written in the tick that is ending.
_NOT_STAMPED: Final = -1


class KeptOperation:
    """One operation as it is sent: its head, then its pieces."""

    def __init__(self, message: list[bytes], size: int, bytes_before: int) -> None:
        self.message: list[bytes] = message
        self.size: int = size
        # Of all operations of the epoch before this one.
        self.bytes_before: int = bytes_before
        self.made_at: int = _NOT_STAMPED


class KeptOperations:
    """Held by a `Primary`. Keeps the newest, and as many before it as the limit allows."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max: int = bytes_max
        self._kept: list[KeptOperation] = []
        self._dropped: int = 0
        # k of the oldest that is kept; one more than the last k if none is.
        self.first_k: int = 1
        self.last_k: int = 0
        self.total_bytes: int = 0
        self._kept_bytes: int = 0
        self._first_not_stamped: int = 1
        self._dropped_made_at: int = 0

    def append(self, message: list[bytes], size: int) -> None:
        self._kept.append(KeptOperation(message, size, self.total_bytes))
        self.last_k += 1
        self.total_bytes += size
        self._kept_bytes += size + OPERATION_OVERHEAD_BYTES
        while self.first_k < self.last_k:
            oldest = self._kept[self._dropped]
            # A large one counts only once others stand behind it that are too many by themselves.
            behind = self._kept_bytes - oldest.size - OPERATION_OVERHEAD_BYTES
            if behind <= self._bytes_max:
                break
            self._drop_oldest(oldest, behind)

    def _drop_oldest(self, oldest: KeptOperation, behind: int) -> None:
        self._kept_bytes = behind
        self._dropped_made_at = oldest.made_at
        oldest.message = []
        self._dropped += 1
        self.first_k += 1
        if self._dropped > _DROPPED_MAX:
            del self._kept[: self._dropped]
            self._dropped = 0

    def stamp(self, now: int) -> None:
        """What has been written since the last call was made now."""
        for k in range(max(self._first_not_stamped, self.first_k), self.last_k + 1):
            self._of(k).made_at = now
        self._first_not_stamped = self.last_k + 1

    def message(self, k: int) -> list[bytes]:
        assert self.first_k <= k <= self.last_k, "the operation is kept"
        return self._of(k).message

    def made_at(self, k: int) -> int:
        """Of one that is not kept any more: a time that is not before its own."""
        if k < self.first_k:
            return self._dropped_made_at
        return self._of(k).made_at

    def bytes_behind(self, k: int) -> int:
        """Octets of the operations after k; at least those that are kept."""
        if k >= self.last_k:
            return 0
        return self.total_bytes - self._of(max(k + 1, self.first_k)).bytes_before

    def _of(self, k: int) -> KeptOperation:
        return self._kept[self._dropped + k - self.first_k]
