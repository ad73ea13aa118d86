"""The first bytes of every body: the publisher, the sequence number, and when it was sent.

    run (4) | publisher (2) | sequence (8) | nanoseconds (8)

The run number distinguishes this run's messages from those that an earlier one left in the queue.
Times come from the machine's monotonic clock, so faucet and sink must run on the same machine.
"""

import struct
from typing import Final

STAMP: Final = struct.Struct(">IHQQ")
STAMP_SIZE: Final = STAMP.size

# Holds the stamp's place while frames are encoded; 0xFF occurs in no name, which are UTF-8.
MARK: Final = b"\xff" * STAMP_SIZE
