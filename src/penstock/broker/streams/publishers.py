"""Who published what last: a retried publish lands once.

A publisher that counts its messages (`sent`) may publish again what it is not sure of. The table is
kept with the stream: written down when a segment begins, and what the segment holds since then is
read again at start.
"""

from typing import Final

from penstock.broker.sent import Sent

# Publishers remembered per stream. At the limit the one that was silent for longest is forgotten:
# what it publishes again would land twice.
PUBLISHERS_MAX: Final = 10_000


class Publishers:
    """Held by one stream."""

    def __init__(self) -> None:
        # Last sequence by publisher; the one that was silent for longest stands first.
        self.sequences: dict[str, int] = {}

    def is_repeated(self, sent: Sent) -> bool:
        """Whether it was there before; noted as there when it was not."""
        last = self.sequences.pop(sent.publisher, -1)
        self.sequences[sent.publisher] = max(last, sent.sequence)
        if len(self.sequences) > PUBLISHERS_MAX:
            del self.sequences[next(iter(self.sequences))]
        return sent.sequence <= last
