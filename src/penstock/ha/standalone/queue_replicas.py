"""All replicas of a server: the queues that follow others, each with its link."""

from penstock.broker.message import MessageDecoder
from penstock.broker.queues.message_queue import MessageQueue
from penstock.dialects.container import Container
from penstock.ha.standalone.queue_replica import QueueReplica
from penstock.ha.standalone.replica_dialler import ReplicaDialler


class QueueReplicas:
    """Held by the node of a server that is not a member of a cluster."""

    def __init__(
        self, container: Container, decoder: MessageDecoder, dialler: ReplicaDialler
    ) -> None:
        self._container: Container = container
        self._decoder: MessageDecoder = decoder
        self._dialler: ReplicaDialler = dialler
        self._replicas: dict[MessageQueue, QueueReplica] = {}
        container.state.shared.keeps_replicas = True

    def listed(self) -> list[QueueReplica]:
        return list(self._replicas.values())

    def find(self, queue: MessageQueue) -> QueueReplica | None:
        return self._replicas.get(queue)

    def tick(self, now: int) -> None:
        """A few times a second: queues that follow get a replica, others lose theirs."""
        following = self._container.state.shared.replicas
        for queue, replica in list(self._replicas.items()):
            if queue not in following:
                replica.end()
                del self._replicas[queue]
        for queue, vhost in following.items():
            if queue not in self._replicas:
                self._replicas[queue] = QueueReplica(
                    queue, vhost, self._container, self._decoder, self._dialler, now
                )
        for replica in list(self._replicas.values()):
            replica.tick(now)

    def stop(self) -> None:
        for replica in self._replicas.values():
            replica.end()
        self._replicas = {}
