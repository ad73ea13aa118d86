"""A node's entropy out of the seed: the same seed gives the same names, keys and jitter."""

from penstock.simulation.dice import Dice
from penstock.world.entropy import Entropy


class SeededEntropy(Entropy):
    """Held by one node or one client."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice

    def octets(self, count: int) -> bytes:
        return self._dice.octets(count)
