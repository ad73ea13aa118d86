"""Sets replication ids: numbers of queues, and positions in them, that no other root has given or will give.

An id is the position that a message gets before it is enqueued. It contains the epoch, which has one root, so
all that a root has to do is to begin each queue's count with its epoch; nothing is done per message.
"""

from penstock.broker.store.message_store import MessageStore
from penstock.formats.replication_id import first_id


class IdSetter:
    """Used by the replica store when its server becomes the root."""

    def __init__(self, store: MessageStore) -> None:
        self._store: MessageStore = store

    def begin(self, epoch: int) -> None:
        """Ids of queues and of messages continue with the first of the epoch, and so will those of
        queues that are declared later.
        """
        store = self._store
        assert epoch >= store.epoch, "epochs only grow"
        store.epoch = epoch
        store.next_queue_number = max(store.next_queue_number, first_id(epoch))
        for vhost in store.state.vhosts.values():
            for queue in vhost.queues.values():
                queue.begin_epoch(epoch)
            vhost.delay_line.begin_epoch(epoch)
