"""Rows of a sink's block that go to one stream: appended as they lie in the block, all at once."""

from penstock.broker.message import NOBODY, Address, Message, Properties
from penstock.formats.stage_block import RepeatedRows


class RowPiece:
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
        # With these the stream has what belongs there of so many rows of the stage.
        self.end: int = end
        self.count: int = 0
        self.pieces: list[RowPiece] = []

    def add(
        self, run: RepeatedRows, first: int, count: int, address: Address, properties: Properties
    ) -> None:
        """Rows behind those that were added before."""
        self.count += count
        last = self.pieces[-1] if self.pieces else None
        if last is not None and last.run is run and last.first + last.count == first:
            last.count += count
            return
        piece = RowPiece(run, first, address, properties)
        piece.count = count
        self.pieces.append(piece)

    def messages(self) -> list[Message]:
        """For whoever looks at single ones."""
        made: list[Message] = []
        for piece in self.pieces:
            bodies = piece.run.bodies(piece.first)[: piece.count]
            for body in bodies:
                made.append(Message(piece.address, piece.properties, body, NOBODY))
        return made
