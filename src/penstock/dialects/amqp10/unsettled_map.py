"""The map of unsettled deliveries in an attach (specification 2.6.13)."""

from typing import Final

from penstock.wire.amqp10.performatives_generated import Attach
from penstock.wire.amqp10.values import Composite

# Octets of an item beside tag and state: the constructor and size of the tag.
_ITEM_SIZE: Final = 5
_NULL_SIZE: Final = 1


def put_unsettled(answer: Attach, unsettled: dict[bytes, Composite | None], frame_max: int) -> None:
    """As much of it as a frame takes; an attach is never split. Half of a frame is left for the
    rest of the attach.
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
