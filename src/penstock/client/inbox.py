"""What has arrived for one channel and has not been fetched yet."""

from collections import deque

from penstock.client.events import (
    ChannelClosed,
    Confirmed,
    ConsumerCancelled,
    Delivered,
    Event,
    Replied,
    Returned,
)


class Inbox:
    """Filled by the pump, emptied by the channel's owner. Its size is bounded by the prefetch
    limit, or without acknowledgements by how long its owner lets a call wait.
    """

    def __init__(self) -> None:
        self.deliveries: deque[Delivered] = deque()
        self.replies: dict[int, Replied] = {}
        # Either every confirm is kept, or only how many publishes were refused.
        self.keeps_confirmed: bool = False
        self.confirmed: deque[Confirmed] = deque()
        self.refused_count: int = 0
        self.returned: deque[Returned] = deque()
        self.cancelled: deque[str] = deque()
        self.closed: ChannelClosed | None = None

    def put(self, event: Event) -> None:
        if isinstance(event, Delivered):
            self.deliveries.append(event)
        elif isinstance(event, Confirmed):
            if self.keeps_confirmed:
                self.confirmed.append(event)
            elif event.nack:
                self.refused_count += sum(part.count for part in event.settled)
        elif isinstance(event, Replied):
            self.replies[event.ticket] = event
        elif isinstance(event, Returned):
            self.returned.append(event)
        elif isinstance(event, ConsumerCancelled):
            self.cancelled.append(event.consumer_tag)
        elif isinstance(event, ChannelClosed):
            self.closed = event
