"""Opening the streams that definitions brought back, removing what belongs to none, and saying up to
where each is safe.
"""

from penstock.broker.stream_store import StreamStore
from penstock.broker.streams.folders import ROOT, folder_of
from penstock.broker.streams.stream import Stream, as_stream
from penstock.broker.vhost_view import VirtualHostView


def open_streams(store: StreamStore, vhosts: list[VirtualHostView], now: int) -> int:
    """Ends the recovery; returns the number of streams. Raises a `StorageError` for damage."""
    store.is_recovering = False
    known: set[str] = set()
    names = store.disk.names()
    count = 0
    for vhost in vhosts:
        for stream in streams_of(vhost):
            known.add(folder_of(vhost.name, stream.name, stream.number))
            stream.open(names, now)
            count += 1
    for name in store.disk.names():
        # A deletion that was written down while its removals were not yet.
        if name.startswith(ROOT + "/") and name.rpartition("/")[0] not in known:
            store.disk.remove(name)
    return count


def streams_of(vhost: VirtualHostView) -> list[Stream]:
    """For whoever reads their files, cursors and notes. All else is asked of any queue."""
    return [queue for queue in vhost.queues.values() if isinstance(queue, Stream)]


def find_stream(vhost: VirtualHostView, name: str) -> Stream | None:
    """The stream of this name; None when there is no queue of the name, or it is no stream."""
    queue = vhost.queues.get(name)
    return None if queue is None else as_stream(queue)


def safe_ends(vhosts: list[VirtualHostView]) -> dict[str, int]:
    """Behind the last message of each stream that survives a power loss, by its folder."""
    found: dict[str, int] = {}
    for vhost in vhosts:
        for stream in streams_of(vhost):
            folder = folder_of(vhost.name, stream.name, stream.number)
            found[folder] = stream.files.readable_offset()
    return found
