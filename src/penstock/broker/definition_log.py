"""The interface that records what is declared, so that it exists again after a restart."""

from mypy_extensions import mypyc_attr

from penstock.broker.topology import BrokerCommand, VhostCommand


@mypyc_attr(allow_interpreted_subclasses=True)
class DefinitionLog:
    """Told of every change to what must outlive the process: durable objects, users, policies.

    This class records nothing, which is right for a broker that keeps everything in memory.
    """

    def __init__(self) -> None:
        # How many changes were recorded; whoever asked for one waits until it is durable.
        self.change_count: int = 0

    def vhost_changed(self, vhost: str, command: VhostCommand) -> None:
        """A durable object of a virtual host was made, changed or removed."""

    def broker_changed(self, command: BrokerCommand) -> None:
        """A virtual host, a user or a permission was made, changed or removed."""
