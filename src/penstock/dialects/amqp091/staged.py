"""What a transaction has collected until its commit or rollback."""

from mypy_extensions import mypyc_attr

from penstock.broker.message import Message
from penstock.broker.queues.queue import Queue
from penstock.dialects.amqp091.acknowledge import Outcome
from penstock.dialects.amqp091.staged_tags import StagedTags
from penstock.dialects.targets import PublishTarget


@mypyc_attr(acyclic=True)
class StagedPublish:
    """A message that is routed when the transaction commits."""

    def __init__(self, target: PublishTarget, message: Message) -> None:
        self.target: PublishTarget = target
        self.message: Message = message
        # False when its own headers name further routing keys.
        self.is_plain: bool = not message.properties.has_extra_keys
        # Where the commit sends it; None until it is known, and when only the long way tells.
        self.queues: list[Queue] | None = None


@mypyc_attr(acyclic=True)
class StagedSettlement:
    """An acknowledgement that takes effect when the transaction commits."""

    def __init__(self, tag: int, multiple: bool, outcome: Outcome) -> None:
        self.tag: int = tag
        self.multiple: bool = multiple
        self.outcome: Outcome = outcome


class Transaction:
    """Held by a channel in transaction mode; emptied by each commit and rollback."""

    def __init__(self) -> None:
        self.publishes: list[StagedPublish] = []
        self.settlements: list[StagedSettlement] = []
        self.tags: StagedTags = StagedTags()
        # Octets of the messages.
        self.octets: int = 0

    def clear(self) -> None:
        self.tags = StagedTags()
        self.octets = 0
        self.publishes = []
        self.settlements = []
