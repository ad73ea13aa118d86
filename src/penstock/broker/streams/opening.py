"""Opening the streams that definitions brought back, removing what belongs to none, and saying up to
where each is safe.
"""

from penstock.broker.stream_store import StreamStore
from penstock.broker.streams.folders import ROOT, folder_of
from penstock.broker.streams.stream import Stream
from penstock.broker.vhost_view import VirtualHostView


def open_streams(store: StreamStore, vhosts: list[VirtualHostView], now: int) -> int:
    """Ends the recovery; returns the number of streams. Raises a `StorageError` for damage."""
    store.is_recovering = False
    known: set[str] = set()
    names = store.disk.names()
    count = 0
    for vhost in vhosts:
        for queue in vhost.queues.values():
            if isinstance(queue, Stream):
                known.add(folder_of(vhost.name, queue.name, queue.number))
                queue.open(names, now)
                count += 1
    for name in store.disk.names():
        # A deletion that was written down while its removals were not yet.
        if name.startswith(ROOT + "/") and name.rpartition("/")[0] not in known:
            store.disk.remove(name)
    return count


def safe_ends(vhosts: list[VirtualHostView]) -> dict[str, int]:
    """Behind the last message of each stream that survives a power loss, by its folder."""
    found: dict[str, int] = {}
    for vhost in vhosts:
        for queue in vhost.queues.values():
            if isinstance(queue, Stream):
                folder = folder_of(vhost.name, queue.name, queue.number)
                found[folder] = queue.files.readable_offset()
    return found
