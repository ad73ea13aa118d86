"""The configuration of one node; never changed after it has started."""

from dataclasses import dataclass, field
from typing import Final

from penstock.broker.events import EventLog
from penstock.broker.store.limits import StoreLimits
from penstock.dialects.amqp10.dialect import Amqp10Settings
from penstock.dialects.container import Container
from penstock.dialects.mechanisms import ALL_MECHANISMS
from penstock.dialects.translate import DialectTranslator
from penstock.dialects.turn import COMMIT_STEP_COUNT, TURN_UNITS_MAX
from penstock.wire.amqp091.limits import Limits
from penstock.wire.amqp10.limits import Limits as Amqp10Limits

# Each connection costs up to 20 kB; this many are 1.3 GB. More than one process can usually open.
CONNECTIONS_MAX: Final = 65_536


@dataclass(frozen=True, slots=True)
class NodeConfiguration:
    version: str
    platform: str
    cluster_name: str
    limits: Limits = field(default_factory=Limits)
    connections_max: int = CONNECTIONS_MAX
    store: StoreLimits = field(default_factory=StoreLimits)
    amqp10_limits: Amqp10Limits = field(default_factory=Amqp10Limits)
    # What one connection may spend before others have their turn; simulations make it small.
    turn_units_max: int = TURN_UNITS_MAX
    commit_step_count: int = COMMIT_STEP_COUNT
    # Whether every queue's messages are recorded in a ledger for audits; needs a disk.
    ledger: bool = False
    # Whether SCRAM keys are stored when a password is set.
    makes_scram_keys: bool = True
    # What listeners offer that do not say otherwise.
    mechanisms: tuple[str, ...] = ALL_MECHANISMS
    amqp10: Amqp10Settings = field(default_factory=Amqp10Settings)


def prepare(
    container: Container, configuration: NodeConfiguration, events: EventLog | None
) -> None:
    """Set up a container with the settings of its node."""
    container.translator = DialectTranslator()
    container.turns.limit(configuration.turn_units_max, configuration.commit_step_count)
    if events is not None:
        container.events = events
