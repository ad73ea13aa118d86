"""On whose behalf a request is done."""

from penstock.broker.topology import Result, VhostCommand
from penstock.broker.vhost import VirtualHost
from penstock.dialects.principal import Principal


class Caller:
    """A user on a connection, at a time. Made per request."""

    def __init__(
        self, principal: Principal, connection_number: int, node_name: str, now: int
    ) -> None:
        self.principal: Principal = principal
        self.vhost: VirtualHost = principal.vhost
        # Owns the exclusive queues that it declares.
        self.connection_number: int = connection_number
        # What clients are told of a queue's leader and replicas.
        self.node_name: str = node_name
        self.now: int = now

    def check(self, command: VhostCommand) -> None:
        self.principal.check(command)

    def apply(self, command: VhostCommand) -> Result:
        """Checked and done, or a `Refusal` and nothing changed."""
        self.principal.check(command)
        return self.vhost.apply(command, self.now)
