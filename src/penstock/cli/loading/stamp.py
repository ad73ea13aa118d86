"""The first octets of every body: whose message this is, which one, and when it left.

    run (4) | publisher (2) | sequence (8) | nanoseconds (8)

The run number tells this run's messages from what an earlier one left in the queue. Times come
from the machine's monotonic clock, so faucet and sink must run on the same machine.
"""

import struct
from typing import Final

STAMP: Final = struct.Struct(">IHQQ")
STAMP_SIZE: Final = STAMP.size

# Holds the stamp's place while frames are encoded; 0xFF occurs in no name, which are UTF-8.
MARK: Final = b"\xff" * STAMP_SIZE
