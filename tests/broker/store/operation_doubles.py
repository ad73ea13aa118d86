"""A stream of operations that keeps what the store tells it."""

from penstock.broker.store.limits import StoreLimits
from penstock.broker.store.operation_log import OperationLog
from tests.broker.store.doubles import SMALL, Broker


class KeptOperations(OperationLog):
    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.k = 0
        self.operations: list[bytes] = []
        self.positions: list[int] = []
        self.housekeeping: list[int] = []

    def next_number(self) -> tuple[int, int]:
        self.k += 1
        return self.epoch, self.k

    def wrote(self, pieces: list[bytes], size: int, position: int) -> None:
        octets = b"".join(pieces)
        assert len(octets) == size
        self.operations.append(octets)
        self.positions.append(position)

    def wrote_housekeeping(self, position: int) -> None:
        self.housekeeping.append(position)


def root_of(epoch: int, limits: StoreLimits = SMALL) -> tuple[Broker, KeptOperations]:
    """A broker that is the root of an epoch and has what a first root begins with."""
    broker = Broker(limits=limits, is_member=True)
    kept = KeptOperations(epoch)
    promoted(broker, epoch)
    broker.store.operations = kept
    broker.tick()
    return broker, kept


def promoted(broker: Broker, epoch: int) -> Broker:
    """A member that is a backup, as after a start, becomes the root of an epoch."""
    replica = broker.stored.replica
    assert replica is not None
    replica.promote(epoch, broker.now)
    return broker
