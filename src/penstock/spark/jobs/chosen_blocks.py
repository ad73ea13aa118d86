"""A set of blocks of queues, in which many blocks are looked up at a time.

The position of a message in a cluster has 62 bits, of which 22 are an epoch: a block's number has 50,
too many for one key with the number of its queue. So blocks are numbered again, by those that are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]

# For the numbers that blocks have here; an audit looks at far fewer.
_NUMBER_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class ChosenBlocks:
    """Held by the steps of an audit that look at single blocks. See `chosen_blocks`."""

    # Numbers of all blocks, sorted; and the sorted pairs of a queue and the place of its block there.
    blocks: Numbers
    pairs: Numbers

    def __len__(self) -> int:
        return len(self.pairs)

    def queues(self) -> Numbers:
        """Of each pair."""
        return self.pairs >> _NUMBER_BITS

    def where(self, chosen: npt.NDArray[np.bool_]) -> ChosenBlocks:
        return ChosenBlocks(self.blocks, self.pairs[chosen])

    def contains(self, queue: Numbers, block: Numbers) -> npt.NDArray[np.bool_]:
        if not len(self.pairs):
            return np.zeros(len(block), dtype=bool)
        place = _found(self.blocks, block)
        pair = (queue << _NUMBER_BITS) + place
        is_known = self.blocks[place] == block
        return np.asarray(is_known & (self.pairs[_found(self.pairs, pair)] == pair), dtype=bool)


def chosen_blocks(queue: Numbers, block: Numbers) -> ChosenBlocks:
    blocks, place = np.unique(block, return_inverse=True)
    return ChosenBlocks(blocks, np.unique((queue << _NUMBER_BITS) + place))


def _found(ordered: Numbers, wanted: Numbers) -> Numbers:
    """Where each one is, if it is there; somewhere else otherwise."""
    at = np.searchsorted(ordered, wanted)
    at[at == len(ordered)] = 0
    return np.asarray(at, dtype=np.int64)
