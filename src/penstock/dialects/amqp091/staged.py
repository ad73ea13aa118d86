"""What a transaction has collected until its commit or rollback."""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.discarded import Discarded
from penstock.broker.message import Message
from penstock.broker.publishing.target import Target
from penstock.dialects.amqp091.acknowledge import Outcome, StagedTags
from penstock.wire.amqp091.errors import ChannelFault
from penstock.wire.amqp091.reply_codes_generated import PRECONDITION_FAILED

# What one transaction may publish. Its commit is one batch of the journal, whose size has 32 bits,
# and which takes the disk's thread a second for this much.
TRANSACTION_BYTES_MAX: Final = 1 << 30
# Counted for each message beside its octets, as its record has more than these.
RECORD_BYTES: Final = 256


@mypyc_attr(acyclic=True)
class StagedPublish:
    """A message that is routed when the transaction commits."""

    def __init__(self, target: Target, message: Message) -> None:
        self.target: Target = target
        self.message: Message = message
        # False when its own headers name further routing keys.
        self.is_plain: bool = not message.properties.has_extra_keys
        # Where the commit sends it; None until it is known, and for a direct reply.
        self.found: Target | None = None


@mypyc_attr(acyclic=True)
class StagedSettlement:
    """An acknowledgement that takes effect when the transaction commits."""

    def __init__(self, tag: int, multiple: bool, outcome: Outcome) -> None:
        self.tag: int = tag
        self.multiple: bool = multiple
        self.outcome: Outcome = outcome


class Transaction:
    """Held by a channel in transaction mode; emptied by each commit and rollback."""

    def __init__(self, bytes_max: int = TRANSACTION_BYTES_MAX) -> None:
        self._bytes_max: int = bytes_max
        self.publishes: list[StagedPublish] = []
        self.settlements: list[StagedSettlement] = []
        self.tags: StagedTags = StagedTags()
        # Octets of the messages, bodies and headers.
        self.octets: int = 0

    def stage(self, publish: StagedPublish) -> None:
        """Raises a channel error when that is too much."""
        message = publish.message
        self.octets += len(message.body) + len(message.properties.encoded())
        self.publishes.append(publish)
        if self.octets + len(self.publishes) * RECORD_BYTES > self._bytes_max:
            text = f"more than {self._bytes_max} bytes of messages in one transaction"
            raise ChannelFault(PRECONDITION_FAILED, text)

    def roll_back(self, discarded: Discarded) -> None:
        """What was collected is freed a part at a time."""
        discarded.add(self.publishes)
        self.clear()

    def clear(self) -> None:
        self.tags = StagedTags()
        self.octets = 0
        self.publishes = []
        self.settlements = []
