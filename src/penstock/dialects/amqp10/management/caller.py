"""On whose behalf a request is done."""

from penstock.broker.access.actor import AMQP10_MANAGEMENT
from penstock.broker.command_events import is_change
from penstock.broker.topology import Result, VhostCommand
from penstock.broker.vhost import VirtualHost
from penstock.dialects.noting import Noting
from penstock.dialects.principal import Principal


class Caller:
    """A user on a connection, at a time. Made per request."""

    def __init__(
        self,
        principal: Principal,
        connection_number: int,
        node_name: str,
        noting: Noting | None,
        now: int,
    ) -> None:
        self.principal: Principal = principal
        self.vhost: VirtualHost = principal.vhost
        # Owns the exclusive queues that it declares.
        self.connection_number: int = connection_number
        # What clients are told of a queue's leader and replicas.
        self.node_name: str = node_name
        # Writes down what is changed; None where nobody reads it.
        self._noting: Noting | None = noting
        self.now: int = now

    def check(self, command: VhostCommand) -> None:
        self.principal.check(command)

    def apply(self, command: VhostCommand) -> Result:
        """Check permissions and apply the command; on a `Refusal` nothing was changed."""
        self.principal.check(command)
        changes = is_change(self.vhost, command)
        result = self.vhost.apply(command, self.now)
        if changes and self._noting is not None:
            self._noting.administered(command, AMQP10_MANAGEMENT)
        return result
