"""Holds moves back while publishers are blocked, and lets them run no faster than the disk."""

from penstock.broker.move_table import MoveGate
from penstock.dialects.container import Container


class NodeMoveGate(MoveGate):
    """Held by what the virtual hosts share."""

    def __init__(self, container: Container) -> None:
        self._container: Container = container

    def is_closed(self) -> bool:
        return bool(self._container.alarm)

    def written(self) -> int:
        return self._container.durability.written

    def durable(self) -> int:
        return self._container.durability.durable
