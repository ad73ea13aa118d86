"""How large the store's files and steps are. Servers keep the defaults; tests make them little."""

from dataclasses import dataclass, field

from penstock.broker.queues.paged_list import PagingLimits
from penstock.broker.store.reclaim import PATIENCE_MS, STEP_BYTES
from penstock.broker.store.reclaim_pace import BUSY_MS
from penstock.broker.store.spool import FILE_BYTES_MAX
from penstock.storage.journal import SEGMENT_BYTES_MAX


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """Part of a node's configuration."""

    segment_bytes_max: int = SEGMENT_BYTES_MAX
    spool_bytes_max: int = FILE_BYTES_MAX
    reclaim_step_bytes: int = STEP_BYTES
    paging: PagingLimits = field(default_factory=PagingLimits)
    # Of the data directory; a new journal takes it over. Empty draws one.
    store_id: bytes = b""
    reclaim_patience_ms: int = PATIENCE_MS
    reclaim_busy_ms: int = BUSY_MS
