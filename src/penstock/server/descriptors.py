"""How many descriptors this process may have, and what they are kept for.

A socket is a descriptor, and so is an open file. The system gives out the lowest free number, so a
new descriptor's own number says how many are taken at least: no count has to be kept, and whatever
else holds some is counted as well.

    0 .............. sockets_below ......... http_below ......... files_below ........ limit
    everything           files, and HTTP's sockets   files        what must not fail

HTTP's sockets have a higher limit than AMQP's, so that health and metrics are still available when
all connections are in use.
"""

from __future__ import annotations

import errno
import os
import resource
from typing import Final

# The part of the limit that no socket gets: a quarter of it, and at most so many. Journal segments,
# streams, files that HTTP sends and everything short-lived are opened from it.
RESERVE_SHARE: Final = 4
RESERVE_MAX: Final = 1_024
# A broker without connections has about 25 open, and opens some more when it starts serving.
RESERVE_MIN: Final = 64
# Used where the system has no limit.
UNLIMITED: Final = 1 << 20

# The errors when there are no more: for this process, for the machine, or for lack of memory.
OUT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNLIMITED if soft == resource.RLIM_INFINITY else soft


def reserve(of: int) -> int:
    return max(RESERVE_MIN, min(RESERVE_MAX, of // RESERVE_SHARE))


def sockets_below() -> int:
    """An AMQP connection whose socket has this number or a higher one is refused."""
    found = limit()
    return max(0, found - reserve(found))


def http_below() -> int:
    """As `sockets_below`, for HTTP and for WebSockets."""
    found = limit()
    return max(0, found - reserve(found) // 2)


def files_below() -> int:
    """A file with this number or a higher one is not kept open for a peer."""
    found = limit()
    return max(0, found - reserve(found) // RESERVE_SHARE)


def files_max() -> int:
    """How many files of the data directory are open at once; others are opened again when they are
    needed.
    """
    return reserve(limit()) // 2


class SpareDescriptor:
    """One descriptor that is given up when there is no other. Held by code that must not fail
    then.
    """

    def __init__(self) -> None:
        self._descriptor = _placeholder()

    def release(self) -> bool:
        """Whether there is room for one descriptor now."""
        if self._descriptor < 0:
            return False
        os.close(self._descriptor)
        self._descriptor = -1
        return True

    def take_back(self) -> None:
        """Try to get it back; without a free descriptor it stays released until the next time."""
        if self._descriptor < 0:
            self._descriptor = _placeholder()

    def close(self) -> None:
        self.release()


def _placeholder() -> int:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1
