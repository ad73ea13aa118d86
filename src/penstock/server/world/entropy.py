"""The machine's dice."""

import os

from penstock.world.entropy import Entropy


class MachineEntropy(Entropy):
    def octets(self, count: int) -> bytes:
        return os.urandom(count)
