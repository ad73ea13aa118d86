"""Which queues of a virtual host are replicas of queues elsewhere: what its parameters say."""

from penstock.broker.arguments import STREAM, type_of
from penstock.broker.errors import PreconditionFailed
from penstock.broker.names import described
from penstock.broker.parameters import ParameterKey
from penstock.broker.queues.following import REPLICA_COMPONENT, check_following, following_of
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.shared_services import SharedServices
from penstock.broker.topology import ClearParameter, DeclareQueue, SetParameter


class ReplicaTable:
    """Held by the virtual host, which asks it about every change."""

    def __init__(
        self, vhost: str, parameters: dict[ParameterKey, object], shared: SharedServices
    ) -> None:
        self._vhost: str = vhost
        self._parameters: dict[ParameterKey, object] = parameters
        self._shared: SharedServices = shared

    def check(self, command: SetParameter | ClearParameter, queue: MessageQueue | None) -> None:
        """Before a parameter is changed; `queue` is the one of its name. Raises
        `PreconditionFailed`.
        """
        if command.component != REPLICA_COMPONENT or isinstance(command, ClearParameter):
            return
        following = following_of(command.name, command.value)
        what = described("queue", command.name, self._vhost)
        if self._shared.is_replicated:
            raise PreconditionFailed(
                f"{what} cannot be a replica: this server is a member of a cluster, which has "
                "replicas of its own. Replicate to a server that is not a member"
            )
        # A start reads back what was allowed when it was set.
        if self._shared.decides and not self._shared.keeps_replicas:
            raise PreconditionFailed(
                f"{what} cannot be a replica: a server without a data directory cannot keep replicas"
            )
        if queue is not None:
            check_following(what, following, queue.following)

    def check_declared(self, command: DeclareQueue) -> None:
        """Before a queue is made. Raises `PreconditionFailed`."""
        if (REPLICA_COMPONENT, command.name) not in self._parameters:
            return
        what = described("queue", command.name, self._vhost)
        if type_of(command.arguments, self._shared.kinds.types) is STREAM:
            raise PreconditionFailed(f"{what} cannot be a replica: it is a stream")
        if not command.durable or command.exclusive or command.auto_delete:
            raise PreconditionFailed(
                f"{what} cannot be a replica: it must be durable, and neither exclusive nor auto-delete"
            )

    def look(self, queue: MessageQueue, now: int) -> None:
        """A queue was declared, or a parameter of its name has changed."""
        key = (REPLICA_COMPONENT, queue.name)
        if key not in self._parameters:
            if queue.following is not None:
                del self._shared.replicas[queue]
                queue.set_following(None, now)
            return
        following = following_of(queue.name, self._parameters[key])
        if queue.following is None:
            self._shared.replicas[queue] = self._vhost
        if queue.following != following:
            queue.set_following(following, now)

    def forget(self, queue: MessageQueue) -> None:
        """The queue is deleted, and with it what it follows."""
        if self._shared.replicas.pop(queue, None) is not None:
            del self._parameters[(REPLICA_COMPONENT, queue.name)]
