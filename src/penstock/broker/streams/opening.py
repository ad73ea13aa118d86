"""Making streams, opening those that were restored from definitions, removing files of deleted
ones, and reporting up to where each is durable.
"""

from collections.abc import Iterable

from penstock.broker.arguments import QueueArguments
from penstock.broker.queues.message_queue import MessageQueue, QueueOwner
from penstock.broker.queues.queue_kinds import QueueMaker
from penstock.broker.stream_store import StreamStore
from penstock.broker.streams.folders import ROOT, folder_of
from penstock.broker.streams.replicated_streams import ReplicatedStreams
from penstock.broker.streams.stream import Stream, as_stream
from penstock.broker.timers import WallClock


class StreamMaker(QueueMaker):
    """Makes streams, which are always durable and never exclusive."""

    def __init__(
        self, store: StreamStore, wall: WallClock, replicated: ReplicatedStreams | None = None
    ) -> None:
        self._store: StreamStore = store
        self._wall: WallClock = wall
        # Of a member of a cluster.
        self._replicated: ReplicatedStreams | None = replicated

    def make(
        self,
        vhost: QueueOwner,
        name: str,
        durable: bool,
        exclusive_owner: int,
        auto_delete: bool,
        settings: QueueArguments,
        arguments: dict[str, object],
        now: int,
    ) -> MessageQueue:
        return Stream(vhost, name, settings, arguments, self._store, self._wall, self._replicated)


def open_streams(store: StreamStore, queues: Iterable[MessageQueue], now: int) -> int:
    """After recovery; returns the number of streams. Raises a `StorageError` for damage."""
    known: set[str] = set()
    names = store.disk.names()
    for stream in streams_of(queues):
        known.add(folder_of(stream.vhost.name, stream.name, stream.number))
        stream.open(names, now)
    for name in store.disk.names():
        # The deletion was recorded, but the files were not removed yet.
        if name.startswith(ROOT + "/") and name.rpartition("/")[0] not in known:
            store.disk.remove(name)
    return len(known)


def streams_of(queues: Iterable[MessageQueue]) -> list[Stream]:
    """For callers that read their files, cursors and notes. Everything else is part of any
    queue.
    """
    return [queue for queue in queues if isinstance(queue, Stream)]


def find_stream(queues: dict[str, MessageQueue], name: str) -> Stream | None:
    """The stream of this name; None when there is no queue of this name, or it is not a stream."""
    queue = queues.get(name)
    return None if queue is None else as_stream(queue)


def durable_ends(queues: Iterable[MessageQueue]) -> dict[str, int]:
    """The end of the durable part of each stream, by its folder."""
    found: dict[str, int] = {}
    for stream in streams_of(queues):
        folder = folder_of(stream.vhost.name, stream.name, stream.number)
        found[folder] = stream.files.log.durable_offset
    return found
