"""What a link wants of a stream, beyond what a stream's own filter can express.

RabbitMQ's filter values are matched exactly here, message by message; RabbitMQ passes over whole
chunks that cannot have one and leaves the rest to the client.
"""

from typing import Final

from penstock.broker.message import Message
from penstock.broker.selectors.message_subject import MessageSubject
from penstock.broker.selectors.selector import Selector
from penstock.broker.streams.filters import StreamFilter

# The header, or annotation, by which publishers mark messages for `rabbitmq:stream-filter`.
STREAM_FILTER_HEADER: Final = "x-stream-filter-value"


class LinkStreamFilter(StreamFilter):
    """Held by one link's reader."""

    def __init__(
        self,
        inner: StreamFilter | None,
        selectors: list[Selector],
        values: frozenset[str] | None,
        takes_unmarked: bool,
    ) -> None:
        super().__init__([], None)
        self._inner: StreamFilter | None = inner
        self._selectors: list[Selector] = selectors
        self._values: frozenset[str] | None = values
        self._takes_unmarked: bool = takes_unmarked

    def wants(self, message: Message) -> bool:
        if self._inner is not None and not self._inner.wants(message):
            return False
        if self._values is not None:
            value = message.properties.headers().get(STREAM_FILTER_HEADER)
            if value is None:
                if not self._takes_unmarked:
                    return False
            elif not isinstance(value, str) or value not in self._values:
                return False
        if self._selectors:
            subject = MessageSubject(message)
            for selector in self._selectors:
                if not selector.matches(subject):
                    return False
        return True
