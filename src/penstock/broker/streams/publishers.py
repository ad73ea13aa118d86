"""The last sequence of each publisher: a retried publish is stored once.

A publisher that counts its messages (`sent`) may publish again what it is not sure of. The broker
itself appends the rows of a sink's stage block by block, and does so again after a restart where it
does not know that a block is there. Both tables are kept with the stream, in the notes beside its
segments (`notes`).
"""

from typing import Final

from penstock.broker.sent import Sent

# Publishers remembered per stream. At the limit the one that was silent for longest is forgotten: a
# message that it repeats would be stored twice.
PUBLISHERS_MAX: Final = 10_000


class Publishers:
    """Held by one stream."""

    def __init__(self) -> None:
        # Last sequence by publisher; the one that was silent for longest stands first.
        self.sequences: dict[str, int] = {}
        # Publishers whose number is not noted yet.
        self.changed: dict[str, None] = {}
        # Rows by stage of a sink, of the stages that are being published.
        self.stages: dict[str, int] = {}

    def check_and_note(self, sent: Sent) -> bool:
        """Note a message as stored; True for a duplicate, which was stored before."""
        return self.note(sent.publisher, sent.sequence)

    def note(self, publisher: str, sequence: int) -> bool:
        """The same for a sequence alone."""
        last = self.sequences.pop(publisher, -1)
        self.sequences[publisher] = max(last, sequence)
        self.changed[publisher] = None
        if len(self.sequences) > PUBLISHERS_MAX:
            del self.sequences[next(iter(self.sequences))]
        return sequence <= last

    def take_changed(self) -> dict[str, int]:
        """What is to be noted, in the table's order."""
        taken: dict[str, int] = {}
        # A publisher that publishes moves to the table's end.
        for name in list(self.sequences)[-len(self.changed) :]:
            if name in self.changed:
                taken[name] = self.sequences[name]
        self.changed = {}
        return taken
