"""Rows of message records that differ only in position and in what follows it.

Most messages of a queue come in such rows. What copies them handles a row as one, so that it costs little
for each message.
"""

from typing import Final

from penstock.broker.store import records

# Of a record of one queue, where the last octet of its position is.
_LAST_OCTET: Final = records.SINGLE_HEAD_SIZE + 7
_LAST_OCTET_MAX: Final = 0xFF


def count_in_row(octets: bytes, at: int, size: int) -> int:
    """How many records from a place on have the size of the first, which is a whole message record, and
    are of the same queue, with positions that follow one another; 1 if it names several queues.
    """
    last = octets[at + _LAST_OCTET]
    following = at + size
    end = len(octets)
    if following + size > end or octets[following + _LAST_OCTET] != last + 1:
        return 1
    if records.pair_count_at(octets, at) != 1:
        return 1
    # Kind, size, number of pairs and queue, and the other octets of the position: a row ends before
    # these change.
    head = octets[at : at + _LAST_OCTET]
    count = 1
    while (
        last < _LAST_OCTET_MAX
        and following + size <= end
        and octets[following + _LAST_OCTET] == last + 1
        and octets[following : following + _LAST_OCTET] == head
    ):
        last += 1
        count += 1
        following += size
    return count
