"""What is out with the consumers of one channel or link, taken bit by bit."""

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.message_queue import MessageQueue


class UnsettledPart:
    """Held by whoever looks through the deliveries of a connection, in as many steps as it takes.
    What is settled between the steps is not seen, or was seen; what is delivered between them need
    not be seen.
    """

    def __init__(self) -> None:
        # Whether everything was taken.
        self.is_over: bool = False

    def take(self, count: int) -> list[tuple[MessageQueue, QueueEntry]]:
        """The next ones, after a look at so many; an empty list need not be the end."""
        raise NotImplementedError
