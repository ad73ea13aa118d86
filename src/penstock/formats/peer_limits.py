"""Sizes of what servers of a cluster send one another."""

from typing import Final

# One operation is everything durable that one tick brought. A tick stops taking input at 64 MiB
# (`dialects/turn.py`), and completes what it has begun: one message of the largest size (128 MiB by
# default), or one transaction, which is refused with 406 if it has more than half of this.
OPERATION_BYTES_MAX: Final = 512 * 1024 * 1024
# A message of the stream: an operation with what precedes it. Above it the link is closed.
STREAM_BYTES_MAX: Final = OPERATION_BYTES_MAX + 64 * 1024
# A control message is a record with its members, a few kilobytes. Above it the link is closed.
CONTROL_BYTES_MAX: Final = 1024 * 1024
# Kinds of messages below this number belong to the stream of operations, the others to the cluster.
FIRST_CONTROL_KIND: Final = 20


class BadPeerMessage(Exception):
    """A peer has sent something that is not a valid message. Its text is the reason; the link is
    closed with it.
    """
