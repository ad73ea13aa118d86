"""What Spark 4.2 added for streaming sources, absent in 4.0 and 4.1: limits and AvailableNow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    class AvailableNow:
        """Spark's mixin, if there is one."""

else:
    try:
        from pyspark.sql.streaming.datasource import (
            SupportsTriggerAvailableNow as AvailableNow,
        )
    except ImportError:

        class AvailableNow:
            """Without it, AvailableNow reads all present messages in one micro-batch."""


def default_limit(messages_max: int | None, bytes_max: int | None) -> Any:
    """Spark passes it to `latestOffset`, unless the trigger reads everything."""
    from pyspark.sql.streaming import datasource

    if messages_max is not None:
        return datasource.ReadMaxRows(messages_max)
    if bytes_max is not None:
        return datasource.ReadMaxBytes(bytes_max)
    return datasource.ReadAllAvailable()


def is_unlimited(limit: Any) -> bool:
    return type(limit).__name__ == "ReadAllAvailable"
