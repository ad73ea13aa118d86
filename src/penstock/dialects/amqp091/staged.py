"""What a transaction has collected until its commit or rollback."""

from penstock.broker.message import Message
from penstock.dialects.amqp091.acknowledge import Outcome
from penstock.dialects.amqp091.staged_tags import StagedTags
from penstock.dialects.targets import PublishTarget


class StagedPublish:
    """A message that is routed when the transaction commits."""

    def __init__(self, target: PublishTarget, message: Message) -> None:
        self.target: PublishTarget = target
        self.message: Message = message


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

    def clear(self) -> None:
        self.tags = StagedTags()
        self.publishes = []
        self.settlements = []
