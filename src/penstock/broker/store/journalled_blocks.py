"""The journal as replicated streams see it: records that their files do not have durably yet."""

from penstock.broker.store.message_store import MessageStore
from penstock.broker.streams.pending_block import BlockKeeper
from penstock.storage.segment import offset_of, segment_of


class JournalledBlocks(BlockKeeper):
    """Held by the replicated streams of a member."""

    def __init__(self, store: MessageStore) -> None:
        self._store: MessageStore = store

    def read(self, location: int, size: int) -> bytes:
        checked = self._store.journal.checked(location, size)
        at = offset_of(location) - checked.start
        return checked.data[at : at + size]

    def released(self, location: int, size: int) -> None:
        self._store.lives.released_block(segment_of(location), size)
