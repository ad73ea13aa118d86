"""Who wants to see every queue there is, and what is published where: the ledger."""

from mypy_extensions import mypyc_attr

from penstock.broker.queues.queue import Queue
from penstock.broker.route_count import RouteCount


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueWatcher:
    """Given to the broker's state, which tells it of queues that come and go."""

    def watch(self, queue: Queue) -> None:
        raise NotImplementedError

    def forget(self, queue: Queue) -> None:
        raise NotImplementedError

    def route(self, vhost: str, exchange: str, key: str) -> RouteCount:
        """Where publishes with this exchange and key are to be counted, until the virtual host's
        generation changes.
        """
        raise NotImplementedError
