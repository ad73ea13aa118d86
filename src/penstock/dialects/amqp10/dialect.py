"""What all AMQP 1.0 connections of one node share."""

from dataclasses import dataclass

from penstock.dialects.amqp10.links.suspended_links import ResumableLinks
from penstock.dialects.amqp10.login import open_properties
from penstock.dialects.container import Container
from penstock.dialects.login_counts import LoginCounts
from penstock.wire.amqp10.limits import Limits


@dataclass(frozen=True, slots=True)
class Amqp10Settings:
    """What an operator decides about AMQP 1.0 clients. Given to the node when it is made; never
    changed afterwards.
    """

    # Whether an attach to a bare name creates a queue when there is neither a queue nor an exchange
    # of that name, and its user may configure it.
    creates_queues: bool = True


class Dialect10:
    """Held by the node and by every AMQP 1.0 connection."""

    def __init__(
        self,
        container: Container,
        limits: Limits,
        container_id: str,
        server_properties: dict[str, object],
        settings: Amqp10Settings,
    ) -> None:
        self.container: Container = container
        self.limits: Limits = limits
        self.container_id: str = container_id
        self._properties: dict[str, object] = open_properties(server_properties)
        self.settings: Amqp10Settings = settings
        self.login_counts: LoginCounts = LoginCounts()
        self.links: ResumableLinks = ResumableLinks(container.state.timers)

    def properties(self) -> dict[str, object]:
        """What an open says about this server that is sent now."""
        return self.container.with_name(self._properties)
