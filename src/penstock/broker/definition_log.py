"""The interface that records what is declared, so that it exists again after a restart."""

from mypy_extensions import mypyc_attr

from penstock.broker.topology import BrokerCommand, VhostCommand


@mypyc_attr(allow_interpreted_subclasses=True)
class DefinitionLog:
    """Told of every change to what must outlive the process: durable objects, users, policies. In a
    cluster it is told of transient objects too, except for exclusive queues and what is bound to
    them: what the root has, its backups have.

    This class records nothing, which is right for a broker that keeps everything in memory.
    """

    def __init__(self) -> None:
        # How many changes were recorded; whoever asked for one waits until it is durable.
        self.change_count: int = 0
        # Whether transient objects are recorded: the server is a member of a cluster.
        self.hears_transient: bool = False

    def hears(self, is_durable: bool, is_exclusive: bool = False) -> bool:
        """Whether changes to such an object are recorded."""
        return is_durable or (self.hears_transient and not is_exclusive)

    def vhost_changed(self, vhost: str, command: VhostCommand, gone_number: int = 0) -> None:
        """An object of a virtual host was made, changed or removed. With a queue that is deleted
        comes the number that it had in the journal; 0 if it had none.
        """

    def broker_changed(self, command: BrokerCommand, gone_number: int = 0) -> None:
        """A virtual host, a user or a permission was made, changed or removed. The number is that of
        a deleted virtual host's delay line; its queues were deleted before.
        """
