"""Who acts: one user in one virtual host."""

from penstock.broker.access.permissions import Access, Permission, ResourceKind
from penstock.broker.partitions import partitions_of
from penstock.broker.topology import DeclareExchange, DeclareQueue, DeleteExchange, VhostCommand
from penstock.broker.vhost import VirtualHost
from penstock.dialects.targets import PublishTarget


class Principal:
    """One user in one virtual host. Shared by all of its connections, so that what one of them has
    resolved serves the others.
    """

    def __init__(self, user: str, vhost: VirtualHost, access: Access) -> None:
        self.user: str = user
        self.vhost: VirtualHost = vhost
        self.access: Access = access
        # What publish method payloads mean; see `targets`.
        self.targets: dict[bytes, PublishTarget] = {}

    def check_publish(self, exchange: str) -> None:
        self.access.check(Permission.WRITE, ResourceKind.EXCHANGE, exchange)

    def check_read_queue(self, name: str) -> None:
        self.access.check(Permission.READ, ResourceKind.QUEUE, name)

    def check(self, command: VhostCommand) -> None:
        creates = False
        if isinstance(command, DeclareQueue):
            creates = command.name not in self.vhost.queues
        elif isinstance(command, DeclareExchange):
            creates = command.name not in self.vhost.exchanges
        self.access.check_command(command, creates)
        if isinstance(command, (DeclareExchange, DeleteExchange)):
            for name in partitions_of(self.vhost, command, creates):
                self.access.check(Permission.CONFIGURE, ResourceKind.QUEUE, name)
