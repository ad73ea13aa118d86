"""How many messages a lone consumer is given at once."""

from typing import Final

# A lone consumer gets up to this many messages, or about this many octets, before its socket's room
# is asked for again.
BATCH_COUNT_MAX: Final = 128
BATCH_BYTES_MAX: Final = 64 * 1024


def batch_count(ready_count: int, ready_bytes: int, credit_count: int) -> int:
    """Kept to about BATCH_BYTES_MAX by the average size of what is ready."""
    count = min(ready_count, credit_count, BATCH_COUNT_MAX)
    if ready_bytes > BATCH_BYTES_MAX:
        count = min(count, max(1, BATCH_BYTES_MAX * ready_count // ready_bytes))
    return count
