"""Rows of a sink's block that go to one stream: appended as they lie in the block, all at once."""

from penstock.broker.message import NOBODY, Address, Message, Properties
from penstock.formats.stage_block import RepeatedRows


class RowSpan:
    """Rows of one run that follow one another. Held by the rows of a stream."""

    def __init__(
        self, run: RepeatedRows, first: int, address: Address, properties: Properties
    ) -> None:
        self.run: RepeatedRows = run
        # Of the run's rows.
        self.first: int = first
        self.count: int = 1
        self.address: Address = address
        self.properties: Properties = properties

    def payloads(self) -> bytes:
        """As a stream's log holds them."""
        return self.run.payloads(self.first, self.count)


class StreamRows:
    """Made for one block and one stream; held until the stream has composed them."""

    def __init__(self, stage: str, end: int) -> None:
        self.stage: str = stage
        # How many rows of the stage are complete in the stream with these.
        self.end: int = end
        self.count: int = 0
        self.spans: list[RowSpan] = []

    def add(
        self, run: RepeatedRows, first: int, count: int, address: Address, properties: Properties
    ) -> None:
        """Add rows that follow those added before."""
        self.count += count
        last = self.spans[-1] if self.spans else None
        if last is not None and last.run is run and last.first + last.count == first:
            last.count += count
            return
        span = RowSpan(run, first, address, properties)
        span.count = count
        self.spans.append(span)

    def messages(self) -> list[Message]:
        """For callers that need single messages."""
        made: list[Message] = []
        for span in self.spans:
            bodies = span.run.bodies(span.first)[: span.count]
            for body in bodies:
                made.append(Message(span.address, span.properties, body, NOBODY))
        return made
