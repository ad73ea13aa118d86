"""Which message of which publisher: the headers of a publisher that counts its messages.

It names itself in the header `x-publisher-id` and counts up in `x-publisher-sequence`, so that it
may publish again what it is not sure of.
"""

from typing import Final

from penstock.broker.message import Properties

ID_HEADER: Final = "x-publisher-id"
SEQUENCE_HEADER: Final = "x-publisher-sequence"
# A message that was dead-lettered or delayed does not come directly from its publisher.
_DEATHS_HEADER: Final = "x-death"
_DELAY_HEADER: Final = "x-delay"
# What to look for in a header's octets before it is worth decoding.
ID_OCTETS: Final = ID_HEADER.encode()
# A longer name is not taken for one.
NAME_LENGTH_MAX: Final = 255
_SEQUENCE_MAX: Final = 2**63 - 1


class Sent:
    """Which message of which publisher."""

    def __init__(self, publisher: str, sequence: int) -> None:
        self.publisher: str = publisher
        self.sequence: int = sequence


def sent_of(properties: Properties) -> Sent | None:
    """None when the headers do not contain valid values of both."""
    headers = properties.headers()
    delay = headers.get(_DELAY_HEADER)
    if _DEATHS_HEADER in headers or (isinstance(delay, int) and delay < 0):
        # It left a queue or a delayed exchange, perhaps out of order: that does not make it a
        # duplicate.
        return None
    publisher = headers.get(ID_HEADER)
    sequence = headers.get(SEQUENCE_HEADER)
    if not isinstance(publisher, str) or not 0 < len(publisher) <= NAME_LENGTH_MAX:
        return None
    if isinstance(sequence, bool) or not isinstance(sequence, int):
        return None
    if not 0 <= sequence <= _SEQUENCE_MAX:
        return None
    return Sent(publisher, sequence)
