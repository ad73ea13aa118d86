"""Records that differ in position and body only, as most do that one application publishes.

A record whose head and tail (`record_run`) are those of the last one is read without a look at any of its fields.
"""

from typing import Final

from penstock.broker.message import Message
from penstock.broker.store import records
from penstock.broker.store.record_run import NUMBER_SIZE

HEAD_END: Final = records.SINGLE_HEAD_SIZE
TAIL_START: Final = HEAD_END + NUMBER_SIZE


class Twin:
    """The record that was read last, if it is of one queue and never expires."""

    def __init__(self, data: bytes, at: int, record: records.MessageRecord, like: Message) -> None:
        self.size: int = records.size_at(data, at)
        self.body_start: int = self.size - record.body_size
        self._head: bytes = data[at : at + HEAD_END]
        self._tail: bytes = data[at + TAIL_START : at + self.body_start]
        self._like: Message = like

    def message_at(self, data: bytes, at: int) -> Message | None:
        """None when another kind of record is there, or not all of it."""
        end = at + self.size
        body_start = at + self.body_start
        if (
            end > len(data)
            or data[at : at + HEAD_END] != self._head
            or data[at + TAIL_START : body_start] != self._tail
        ):
            return None
        like = self._like
        return Message(like.address, like.properties, data[body_start:end], like.origin)
