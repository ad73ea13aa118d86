"""What a replicated stream knows beside its messages: cursors, publishers, sinks, epochs.

All of it is part of the definitions: each change is one, in the operation of the tick that made it, and
a snapshot has everything. So other servers and the journal have it, and no file of the stream does.
"""

from typing import Final

from penstock.broker.streams.publishers import Publishers
from penstock.broker.topology import ChangeStream
from penstock.formats.replication_id import epoch_of, id_of_offset, offset_of_id
from penstock.storage.number_table import NamedNumbers

# In a change, in place of a number: the name is forgotten. The last offset that a cursor has done
# is -1 for none.
GONE: Final = -2


class StreamEpochs:
    """In which epoch the messages of a stream were appended."""

    def __init__(self) -> None:
        # Epochs and their first offsets, ascending. One for each epoch in which something came.
        self.firsts: list[tuple[int, int]] = []

    def note(self, first_id: int) -> None:
        """A message has this id."""
        epoch = epoch_of(first_id)
        if not self.firsts or self.firsts[-1][0] < epoch:
            self.firsts.append((epoch, offset_of_id(first_id)))

    def ranges(self, first: int, end: int) -> list[tuple[int, int]]:
        """Ids of the messages from an offset up to another: first one and count of each range."""
        found: list[tuple[int, int]] = []
        for place, (epoch, begin) in enumerate(self.firsts):
            behind = self.firsts[place + 1][1] if place + 1 < len(self.firsts) else end
            low = max(begin, first)
            high = min(behind, end)
            if low < high:
                found.append((id_of_offset(epoch, low), high - low))
        return found

    def from_offset(self, offset: int) -> list[tuple[int, int]]:
        """Those that matter for messages from an offset on."""
        place = 0
        while place + 1 < len(self.firsts) and self.firsts[place + 1][1] <= offset:
            place += 1
        return self.firsts[place:]


class ReplicatedCursors(NamedNumbers):
    """Remembers what has changed since the last change of definitions. Cursors move with every
    acknowledgement and are written less often.
    """

    def __init__(self) -> None:
        super().__init__()
        self.changed: dict[str, int] = {}
        # As the last change left them: what other servers have.
        self.written: dict[str, int] = {}

    def take_changed(self) -> dict[str, int]:
        taken = self.changed
        self.changed = {}
        self._write(taken)
        return taken

    def apply(self, changed: dict[str, int]) -> None:
        """What the root did."""
        self._write(changed)
        self.numbers = dict(self.written)

    def clear(self) -> None:
        self.numbers.clear()
        self.written.clear()

    def _write(self, changed: dict[str, int]) -> None:
        for name, number in changed.items():
            if number == GONE:
                self.written.pop(name, None)
            else:
                self.written[name] = number

    def put(self, name: str, number: int) -> None:
        self.numbers[name] = number
        self.changed[name] = number

    def remove(self, name: str) -> bool:
        if self.numbers.pop(name, None) is None:
            return False
        self.changed[name] = GONE
        return True


class StreamValues:
    """Held by a replicated stream and its files."""

    def __init__(self) -> None:
        # The first offset that retention has left, as the state says.
        self.first_offset: int = 0
        self.epochs: StreamEpochs = StreamEpochs()
        self.cursors: ReplicatedCursors = ReplicatedCursors()
        self.publishers: Publishers = Publishers()
        # Whether cursors are to be part of the next change.
        self.writes_cursors: bool = False
        self._changed_rows: dict[str, int] = {}

    def note_rows(self, stage: str, rows: int) -> None:
        self.publishers.stages[stage] = rows
        self._changed_rows[stage] = rows

    def forget_stage(self, stage: str) -> None:
        if self.publishers.stages.pop(stage, None) is not None:
            self._changed_rows[stage] = GONE

    def has_changed(self) -> bool:
        return bool(
            self.publishers.changed
            or self._changed_rows
            or (self.writes_cursors and self.cursors.changed)
        )

    def take_change(self, name: str) -> ChangeStream:
        """What has changed since the last time, for the stream of this name."""
        cursors: dict[str, int] = {}
        if self.writes_cursors:
            cursors = self.cursors.take_changed()
            self.writes_cursors = False
        rows = self._changed_rows
        self._changed_rows = {}
        return ChangeStream(name, cursors, self.publishers.take_changed(), rows)

    def whole(self, name: str) -> ChangeStream:
        """Everything, for a snapshot."""
        epochs = self.epochs.from_offset(self.first_offset)
        return ChangeStream(
            name,
            dict(self.cursors.written),
            dict(self.publishers.sequences),
            dict(self.publishers.stages),
            self.first_offset,
            tuple([epoch for epoch, _ in epochs]),
            tuple([first for _, first in epochs]),
        )

    def apply(self, change: ChangeStream) -> None:
        """Do what the root did, or what a snapshot says. Nothing of it is a change to be told."""
        if change.first_offset >= 0:
            self.first_offset = change.first_offset
            self.epochs.firsts = list(zip(change.epochs, change.epoch_firsts, strict=True))
            self.cursors.clear()
            self.publishers.sequences.clear()
            self.publishers.stages.clear()
        if change.cursors:
            self.cursors.apply(change.cursors)
        for name, sequence in change.sequences.items():
            self.publishers.note(name, sequence)
        self.publishers.changed = {}
        for stage, rows in change.rows.items():
            if rows == GONE:
                self.publishers.stages.pop(stage, None)
            else:
                self.publishers.stages[stage] = rows
