"""Who wants to see every queue there is: the ledger."""

from mypy_extensions import mypyc_attr

from penstock.broker.queues.queue import Queue


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueWatcher:
    """Given to the broker's state, which tells it of queues that come and go."""

    def watch(self, queue: Queue) -> None:
        raise NotImplementedError

    def forget(self, queue: Queue) -> None:
        raise NotImplementedError
