"""Distinguishable messages: every publish is one copy, a repeated publish is another.

A copy's name is at the front of its body and the rest of the body is derived from the name, so a
delivery proves by itself which publish it belongs to and that no octet of it was changed.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

SEPARATOR: Final = b"|"
# How a data section of AMQP 1.0 begins (specification 3.2.6), with one or four octets of size.
_SMALL_DATA: Final = b"\x00\x53\x75\xa0"
_LARGE_DATA: Final = b"\x00\x53\x75\xb0"
_FILLING: Final = bytes(range(256))


class Fate(Enum):
    """What a publisher knows about a copy."""

    SENT = "sent"
    CONFIRMED = "confirmed"
    REFUSED = "refused"
    IN_DOUBT = "in doubt"
    # Its transaction ended without a commit.
    ROLLED_BACK = "rolled back"


@dataclass(slots=True)
class Copy:
    """One publish. Held by its publisher and by the ledger."""

    name: bytes
    publisher: str
    # Which of the publisher's connections sent it; order is guaranteed within one channel only.
    epoch: int
    serial: int
    exchange: str
    key: str
    body: bytes
    # Where it must arrive, by the model.
    queues: tuple[str, ...]
    is_mandatory: bool
    is_persistent: bool = False
    # When a delayed exchange may publish it, by the run's clock in milliseconds; 0 for at once.
    not_before: int = 0
    fate: Fate = Fate.SENT
    was_returned: bool = False
    # As it is kept by queues, where that is not the body itself: an AMQP 1.0 message's body is kept
    # as the section that it came in.
    section: bytes = b""
    # By the run's clock.
    sent_ms: int = 0

    @property
    def kept(self) -> bytes:
        return self.section or self.body


def body_of(name: bytes, size: int) -> bytes:
    """The name, and a filling up to a size that depends on both."""
    start = sum(name) % 256
    filling = (_FILLING[start:] + _FILLING * (size // 256 + 1))[: max(0, size - len(name))]
    return name + SEPARATOR + filling


def name_in(kept: bytes) -> bytes:
    """Of a body, or of a section with one."""
    if kept.startswith(_SMALL_DATA):
        kept = kept[len(_SMALL_DATA) + 1 :]
    elif kept.startswith(_LARGE_DATA):
        kept = kept[len(_LARGE_DATA) + 4 :]
    return kept.partition(SEPARATOR)[0]
