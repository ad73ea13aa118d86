"""Replication ids: numbers of queues, and positions in a queue, that no two servers give twice.

    | 2 bits: 0 | epoch: 22 bits | count: 40 bits |

An epoch has one root, and only the root numbers; so a number that contains the epoch is unique for
ever, in whatever order servers fail. A server without a cluster has epoch 0: its numbers count 1, 2, 3.
They order by epoch first, so the positions of one queue always grow.

Neither part can overflow in practice: an election every second fills 22 bits in 48 days of nothing but
elections, and a million messages a second in one queue fill 40 bits in twelve days of one epoch;
`first_id` refuses an epoch above the maximum. All of it fits a machine word of the compiled build.
"""

from typing import Final

COUNT_BITS: Final = 40
EPOCH_BITS: Final = 22
EPOCH_MAX: Final = (1 << EPOCH_BITS) - 1
_COUNT_MASK: Final = (1 << COUNT_BITS) - 1


def first_id(epoch: int) -> int:
    """The first number that the root of an epoch gives."""
    assert 0 <= epoch <= EPOCH_MAX, "an epoch that does not fit would repeat numbers"
    return epoch << COUNT_BITS | 1


def epoch_of(number: int) -> int:
    """In which epoch a number was given."""
    return number >> COUNT_BITS


def count_of(number: int) -> int:
    """Which number of its epoch it is, from 1 on."""
    return number & _COUNT_MASK


def id_of_offset(epoch: int, offset: int) -> int:
    """Of a message that the root of an epoch appended to a stream: offsets count from 0 through all
    epochs.
    """
    assert offset < _COUNT_MASK, "an offset that does not fit would repeat numbers"
    return first_id(epoch) + offset


def offset_of_id(number: int) -> int:
    """The offset of a message in its stream."""
    return count_of(number) - 1
