"""A body of the demo: the loader's stamp, then one octet that says how often it was sent before.

A publisher that lost its connection cannot know whether the broker has an unconfirmed message. It
sends such a message again, and marks it: a consumer that receives both can distinguish the second
from the first, like the broker's flag `redelivered`.
"""

from typing import Final

from penstock.cli.loading.stamp import STAMP, STAMP_SIZE

FIRST_TIME: Final = 0
AGAIN: Final = 1
MARKED_SIZE: Final = STAMP_SIZE + 1


def marked_body(run: int, publisher: int, sequence: int, time: int, again: bool) -> bytes:
    return STAMP.pack(run, publisher, sequence, time) + (b"\x01" if again else b"\x00")


def read_body(body: bytes) -> tuple[int, int, bool]:
    """Publisher, sequence, and whether it was sent again."""
    _, publisher, sequence, _ = STAMP.unpack_from(body)
    return publisher, sequence, body[STAMP_SIZE] == AGAIN
