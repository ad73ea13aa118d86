"""What a source tells a replica of one of its queues, as the body of a message.

    greeting:  JSON {"incarnation": which queue this is, "accepted": whether the ids of the replica are of it}
    batch:     walked(8) | end(8) | count(8) | records

The records are those of the journal (`store/records.py`), of messages and of positions that left, each
for the one queue. Everything below `walked` was looked at: of those positions the replica has now what
the source has. The source's next position is `end`, and `count` is how many messages it has.

The ids that a replica has go into the argument of its subscription, as (first(8), count(4))*.
"""

import json
from struct import Struct
from typing import Final

from penstock.broker.errors import PreconditionFailed
from penstock.broker.store import records
from penstock.formats.octets import read_u64

# The argument of basic.consume that asks for it: the incarnation that the ids are of, and the ids.
SUBSCRIPTION_ARGUMENT: Final = "x-replicating-subscription"
HELD_ARGUMENT: Final = "x-replica-holds"
# The property `type` of the messages.
GREETING: Final = "penstock.replica.greeting"
BATCH: Final = "penstock.replica.batch"
BATCH_HEAD: Final = Struct(">QQQ")
BATCH_HEAD_SIZE: Final = 24
RANGE_SIZE: Final = records.RANGE_SIZE
# Of ids, see `formats/replication_id.py`.
_ID_MAX: Final = (1 << 62) - 1


class BadBatch(Exception):
    """What a source has sent is not what this server understands."""


class FeedBatch:
    """One batch, read."""

    def __init__(self, body: bytes) -> None:
        """Raises `BadBatch`."""
        if len(body) < BATCH_HEAD_SIZE:
            raise BadBatch("a batch is cut short")
        self.walked: int = read_u64(body, 0)
        self.end: int = read_u64(body, 8)
        self.count: int = read_u64(body, 16)
        self.messages: list[records.MessageRecord] = []
        self.gone: list[tuple[int, int]] = []
        at = BATCH_HEAD_SIZE
        while at < len(body):
            if at + records.HEAD_SIZE > len(body):
                raise BadBatch("a record is cut short")
            end = at + records.size_at(body, at)
            if end > len(body):
                raise BadBatch("a record is cut short")
            if body[at] == records.MESSAGE and records.is_whole_message(body, at, end):
                self.messages.append(records.MessageRecord(body, at))
            elif body[at] == records.DEQUEUED and records.is_whole_dequeued(end - at):
                self.gone.extend(records.DequeuedRecord(body, at).ranges)
            else:
                raise BadBatch(f"a record of kind {body[at]} is not valid")
            at = end


class FeedGreeting:
    """The first message of a subscription, read."""

    def __init__(self, body: bytes) -> None:
        """Raises `BadBatch`."""
        try:
            told = json.loads(body)
        except ValueError as error:
            raise BadBatch(f"the greeting is not JSON: {error}") from error
        incarnation = told.get("incarnation") if isinstance(told, dict) else None
        if not isinstance(incarnation, str) or not incarnation:
            raise BadBatch("the greeting names no incarnation")
        self.incarnation: str = incarnation
        self.is_accepted: bool = told.get("accepted") is True


def encode_greeting(incarnation: str, is_accepted: bool) -> bytes:
    return json.dumps({"incarnation": incarnation, "accepted": is_accepted}).encode()


def encode_held(ranges: list[tuple[int, int]]) -> bytes:
    """First id and count of each; a long range becomes several."""
    pieces: list[bytes] = []
    for first, count in ranges:
        begin, left = first, count
        while left > 0:
            part = min(left, records.RANGE_COUNT_MAX)
            pieces.append(records.encode_range(begin, part))
            begin += part
            left -= part
    return b"".join(pieces)


def decode_held(octets: bytes, end: int) -> list[tuple[int, int]]:
    """First id and the one behind the last of each. `end` is the next id of the queue. Raises
    `PreconditionFailed` for ids that are not in order, or that the queue has never given.
    """
    what = f"invalid arg '{HELD_ARGUMENT}'"
    if len(octets) % RANGE_SIZE:
        raise PreconditionFailed(f"{what}: a range is cut short")
    found: list[tuple[int, int]] = []
    last = 0
    for first, count in records.read_ranges(octets, 0, len(octets)):
        if first == 0 or count == 0 or first < last or first + count - 1 > _ID_MAX:
            raise PreconditionFailed(f"{what}: {count} ids from {first} on are not a valid range")
        last = first + count
        found.append((first, last))
    if last > end:
        raise PreconditionFailed(
            f"the replica has message {last - 1}, and the next one of this queue is {end}: the queue "
            "was restored from an older copy, or the replica is not one of it"
        )
    return found
