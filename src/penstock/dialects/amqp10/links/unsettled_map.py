"""The map of unsettled deliveries in an attach (specification 2.6.13)."""

from typing import Final

from penstock.wire.amqp10.performatives_generated import Attach
from penstock.wire.amqp10.values import Composite

# Octets of an item beside tag and state: the constructor and size of the tag.
_ITEM_SIZE: Final = 5
_NULL_SIZE: Final = 1
# Of the tags that our links give their deliveries: a number of 32 bits.
_TAG_SIZE: Final = 4
_TAG_MASK: Final = 0xFFFF_FFFF


def first_free_tag(theirs: dict[bytes, Composite | None]) -> int:
    """Where a new link begins to number its deliveries when its receiver still has some of an
    earlier one, which we have forgotten: beyond all of these. Otherwise its map would later be
    taken to mean other deliveries that only have the same tags.
    """
    first = 0
    for tag in theirs:
        if len(tag) == _TAG_SIZE:
            first = max(first, int.from_bytes(tag, "big") + 1)
    return first & _TAG_MASK


def put_unsettled(answer: Attach, unsettled: dict[bytes, Composite | None], frame_max: int) -> None:
    """Put as many entries into the attach as a frame can hold; an attach is never split. Half of a
    frame is left for the rest of the attach.
    """
    room = frame_max // 2
    fitting: dict[bytes, Composite | None] = {}
    for tag, state in unsettled.items():
        room -= _ITEM_SIZE + len(tag) + (_NULL_SIZE if state is None else len(state.encode()))
        if room < 0:
            answer.incomplete_unsettled = True
            break
        fitting[tag] = state
    answer.unsettled = fitting or None
