"""Tells the C library to keep freed memory for the next buffer.

Operations and reads are buffers of hundreds of kilobytes that live for a tick. glibc gives such a buffer
back to the system when it is freed, and gets it anew a millisecond later; then the kernel clears every page
of it, and the first write to each is an interrupt. For a backup that was a third of all its CPU time.

What is kept is bounded, and `memory.trim_soon` gives back even that when memory is short.
"""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Numbers of the two settings in glibc's malloc.h.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
# Free memory at the end of the heap is kept up to this size: several operations, their copies, and
# what the sockets have read.
KEPT_BYTES_MAX: Final = 32 << 20
# Larger buffers are mapped for themselves and given back at once: a large message, a paged-out queue.
MAPPED_BYTES_MIN: Final = 4 << 20
# An operator who sets one of these has decided.
_VARIABLES: Final = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_memory(
    mallopt: Callable[[int, int], int] | None = None, environment: Mapping[str, str] = os.environ
) -> bool:
    """Whether the C library has done so. Called once, before buffers are made."""
    if any(name in environment for name in _VARIABLES):
        return False
    call = mallopt or getattr(ctypes.CDLL(None), "mallopt", None)
    if call is None:
        return False
    return bool(call(_TRIM_THRESHOLD, KEPT_BYTES_MAX) and call(_MMAP_THRESHOLD, MAPPED_BYTES_MIN))
