"""What was counted by queues that are gone, so that sums over all queues never fall."""

from penstock.broker.queues.message_queue import MessageQueue


class Totals:
    """Held by the broker's state and by every virtual host. A queue counts for itself, on the
    message path; its counts are added here once, when it goes.
    """

    def __init__(self) -> None:
        self.published: int = 0
        self.delivered: int = 0
        self.acknowledged: int = 0
        self.redelivered: int = 0
        # Queues and streams since the process started; those that were recovered count too.
        self.queues_declared: int = 0
        self.queues_deleted: int = 0

    def declared(self) -> None:
        self.queues_declared += 1

    def deleted(self, queue: MessageQueue) -> None:
        """Called when nothing counts there any more."""
        assert queue.is_deleted, "a queue that is there counts for itself"
        self.queues_deleted += 1
        self.published += queue.published_total
        self.delivered += queue.delivered_total
        self.acknowledged += queue.acknowledged_total
        self.redelivered += queue.redelivered_total
