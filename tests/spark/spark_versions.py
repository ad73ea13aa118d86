"""Which Spark the tests run on, and what is asked of some versions only (`penstock matrix`)."""

from __future__ import annotations

import pyspark
import pytest

SEVERAL_BATCHES = "limits per trigger, and so several micro-batches of one availableNow"
QUEUES = "queues are read by what `latestOffset` is told since"
BACKLOG = "that a source is asked how far it could read"
NEW_JAVA = "Java 24 and later, as the package's is"
STREAM_WRITER = "the writer of streams that takes Arrow"


def numbers_of(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


SPARK = numbers_of(pyspark.__version__)


def needs_spark(version: str, reason: str) -> pytest.MarkDecorator:
    """For what an older Spark lacks; what it does instead is asked by a test with `before_spark`."""
    return pytest.mark.skipif(numbers_of(version) > SPARK, reason=f"Spark {version}: {reason}")


def before_spark(version: str, reason: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        numbers_of(version) <= SPARK, reason=f"before Spark {version}: {reason}"
    )
