"""The limits of replication. A simulation uses small ones so that they are reached."""

from typing import Final

# Of one PIECE. Large enough that its header costs nothing, small enough that an operation never
# waits long behind it: 256 KiB take 2 ms at one gigabit per second.
PIECE_BYTES_MAX: Final = 256 * 1024
# Octets of pieces that a backup may have outstanding, W of protocol section 11. Four pieces fill a
# link of one gigabit with a round trip of 8 ms. At the limit the primary sends operations only.
PIECES_UNACKNOWLEDGED_BYTES_MAX: Final = 4 * PIECE_BYTES_MAX
# Octets of pieces per millisecond, to all backups together, while clients publish: 20 MB/s, an eighth of
# what one core can do. At the limit the pieces wait, the operations do not.
PIECE_BYTES_PER_MS_MAX: Final = 20 * 1024
# What a line may have unsent before the primary hands it more. A single operation may be larger: it
# is handed over whole and leaves as the line drains. At the limit the rest waits with the primary.
LINE_UNSENT_BYTES_MAX: Final = 1024 * 1024
# Operations that the primary keeps, for backups that are behind and for a RESUME. This is more than
# half a second at 100 MB/s. A backup for which an operation is no longer kept loses its line and
# joins again, with a SYNC. An operation that is larger by itself is kept until the next one is there.
OPERATIONS_KEPT_BYTES_MAX: Final = 64 * 1024 * 1024
# What an operation counts beside its octets: the objects that hold it. Bounds the memory that many
# tiny operations take.
OPERATION_OVERHEAD_BYTES: Final = 512
# Ranges of ids in one message: 48 KiB.
RANGES_PER_MESSAGE_MAX: Final = 4096
# Ranges of ids in one JOIN or SYNC: 256 MiB of memory, or 650,000 queues with messages, which count as
# several ranges. Only a store with gaps between nearly all of its messages comes near it. Above it the
# line ends, with the reason.
RANGES_MAX: Final = 16 * 1024 * 1024
# Octets of the values (definitions) in one message of a SYNC, and in all of them. Above the latter
# the line ends.
VALUES_PER_MESSAGE_BYTES_MAX: Final = 64 * 1024
VALUES_BYTES_MAX: Final = 512 * 1024 * 1024
# Texts of definition changes that a backup collects during a SYNC. Above it the SYNC is abandoned:
# the line ends, and the next JOIN gets definitions that contain these changes.
CHANGES_BYTES_MAX: Final = 64 * 1024 * 1024


class HaLimits:
    """Those that a `Primary` keeps to."""

    def __init__(self) -> None:
        self.piece_bytes: int = PIECE_BYTES_MAX
        self.unacknowledged_bytes: int = PIECES_UNACKNOWLEDGED_BYTES_MAX
        self.piece_bytes_per_ms: int = PIECE_BYTES_PER_MS_MAX
        self.piece_burst_bytes: int = PIECES_UNACKNOWLEDGED_BYTES_MAX
        self.unsent_bytes: int = LINE_UNSENT_BYTES_MAX
        self.kept_bytes: int = OPERATIONS_KEPT_BYTES_MAX
        self.ranges_per_message: int = RANGES_PER_MESSAGE_MAX
        self.values_per_message: int = VALUES_PER_MESSAGE_BYTES_MAX


# Nobody changes it.
DEFAULT_LIMITS = HaLimits()
