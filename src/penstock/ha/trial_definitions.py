"""Tries the definitions of a SYNC on a state that is thrown away, before the journal has them.

They are what the root has, so they fit one another. If they do not, because they were damaged or the root has
a defect, the SYNC must be refused: a backup that had them in its journal could not start any more.
"""

from penstock.broker.queues.replica_list import Ranges
from penstock.broker.state import BrokerState
from penstock.broker.store.definition_records import Change
from penstock.broker.topology import BrokerCommand, OpenDelayLine
from penstock.ha.replica_operation import UNUSABLE, BadOperation
from penstock.world.entropy import Entropy

Target = list[tuple[int, Ranges]]  # by queue number


class NoEntropy(Entropy):
    """Nobody logs in on a trial."""

    def octets(self, count: int) -> bytes:
        return bytes(count)


def try_definitions(changes: list[Change], state: BrokerState, now: int) -> None:
    """Raises `BadOperation`, unless the changes make a whole state from an empty one. The state that
    is given is that of this server, and is left as it is.
    """
    trial = BrokerState(NoEntropy())
    trial.decides = False
    trial.shared.replication = state.shared.replication
    numbers: set[int] = set()
    for change in changes:
        number = change.queue_number
        if number and number in numbers:
            raise BadOperation(f"the definitions of a SYNC have two queues with number {number}")
        numbers.add(number)
        try:
            _try(trial, change, now)
        except UNUSABLE as error:
            name = type(change.command).__name__
            raise BadOperation(
                f"{name} in the definitions of a SYNC cannot be applied: {error!r}"
            ) from error


def _try(trial: BrokerState, change: Change, now: int) -> None:
    command = change.command
    if change.vhost is None:
        assert isinstance(command, BrokerCommand), "a command of the broker names no virtual host"
        trial.apply(command, now)
        return
    assert not isinstance(command, BrokerCommand), "a command of the broker names no virtual host"
    host = trial.vhosts.get(change.vhost)
    if host is not None and not isinstance(command, OpenDelayLine):
        host.apply(command, now)
