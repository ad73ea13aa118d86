"""The size of many messages, estimated from a sample."""

from typing import Final

from penstock.broker.entry import QueueEntry

# The largest sample: it takes a few microseconds. Up to here a size is exact.
SAMPLE_COUNT: Final = 256


def sampled_bytes(entries: list[QueueEntry | None], begin: int, count: int) -> int:
    """Octets of the bodies of the `count` entries that stand from `begin` on; None for holes."""
    if count == 0:
        return 0
    step = max(1, (len(entries) - begin) // SAMPLE_COUNT)
    octets = 0
    seen = 0
    for index in range(begin, len(entries), step):
        entry = entries[index]
        if entry is not None:
            octets += len(entry.message.body)
            seen += 1
    return octets * count // seen if seen else 0
