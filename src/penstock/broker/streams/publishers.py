"""Who published what last: a retried publish lands once.

A publisher that names itself in the header `x-publisher-id` and counts its messages up in
`x-publisher-sequence` may publish again what it is not sure of. The table is kept with the stream:
written down when a segment begins, and what the segment holds since then is read again at start.
"""

from typing import Final

from penstock.broker.message import Properties

ID_HEADER: Final = "x-publisher-id"
SEQUENCE_HEADER: Final = "x-publisher-sequence"
# What to look for in a header's octets before it is worth decoding.
ID_OCTETS: Final = ID_HEADER.encode()
# Publishers remembered per stream. At the limit the one that was silent for longest is forgotten:
# what it publishes again would land twice.
PUBLISHERS_MAX: Final = 10_000
# A longer name is not taken for one.
NAME_LENGTH_MAX: Final = 255
_SEQUENCE_MAX: Final = 2**63 - 1


class Sent:
    """Which message of which publisher."""

    def __init__(self, publisher: str, sequence: int) -> None:
        self.publisher: str = publisher
        self.sequence: int = sequence


def sent_of(properties: Properties) -> Sent | None:
    """None when the headers do not name both as they should."""
    headers = properties.headers()
    publisher = headers.get(ID_HEADER)
    sequence = headers.get(SEQUENCE_HEADER)
    if not isinstance(publisher, str) or not 0 < len(publisher) <= NAME_LENGTH_MAX:
        return None
    if isinstance(sequence, bool) or not isinstance(sequence, int):
        return None
    if not 0 <= sequence <= _SEQUENCE_MAX:
        return None
    return Sent(publisher, sequence)


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
