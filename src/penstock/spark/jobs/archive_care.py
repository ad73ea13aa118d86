"""Maintenance of an archive: merging small files, and deleting old days.

Compaction writes the new file aside, then notes what it replaces, then moves it in and removes the
old ones. If it is killed before the note, nothing has changed; after it, the next run finishes.
Only batches that their query has committed are touched: they are not attempted again.
"""

from __future__ import annotations

import json
import re
import secrets
from datetime import date, timedelta
from typing import TYPE_CHECKING, Final

from penstock.spark.jobs.archive import CHECKPOINT, ArchiveFolder
from penstock.spark.jobs.lake_files import LakeFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

ASIDE: Final = "_compacting"
_BATCH: Final = re.compile(r"batch=([0-9a-f]{8})-(\d{8})")


def compact(spark: SparkSession, root: str, rows_per_file: int = 5_000_000) -> int:
    """One batch for each stream and day; returns how many folders were replaced."""
    files = LakeFiles(spark, root)
    finish(files)
    committed = _committed(files)
    tag = files.read(f"{CHECKPOINT}/penstock-tag") if committed >= 0 else ""
    replaced = 0
    for day in _days(files):
        folders = []
        for name in files.names(str(day)):
            form = _BATCH.fullmatch(name)
            if form is None or form.group(1) != tag or int(form.group(2)) <= committed:
                folders.append(f"{day}/{name}")
        if len(folders) > 1:
            _compact_day(spark, files, day, folders, rows_per_file)
            replaced += len(folders)
    return replaced


def _compact_day(
    spark: SparkSession, files: LakeFiles, day: ArchiveFolder, folders: list[str], per_file: int
) -> None:
    name = f"c{secrets.token_hex(8)}"
    aside = f"{ASIDE}/{name}"
    rows = spark.read.parquet(*[files.full(folder) for folder in folders])
    parts = max(1, -(-rows.count() // per_file))
    ordered = rows.repartitionByRange(parts, "partition", "offset")
    ordered.sortWithinPartitions("partition", "offset").write.option("compression", "zstd").parquet(
        files.full(aside)
    )
    target = str(ArchiveFolder(day.stream, day.date, name))
    files.write(f"{aside}.json", json.dumps({"aside": aside, "to": target, "from": folders}))
    finish(files)


def finish(files: LakeFiles) -> None:
    """Complete a compaction that has written its note; discard one that has not."""
    names = files.names(ASIDE)
    for name in names:
        if not name.endswith(".json"):
            continue
        noted = json.loads(files.read(f"{ASIDE}/{name}"))
        # If it is missing it was moved already, and only the removal is left to do.
        if files.exists(noted["aside"]) and not files.exists(noted["to"]):
            files.rename(noted["aside"], noted["to"])
        for folder in noted["from"]:
            files.delete(folder)
        files.delete(f"{ASIDE}/{name}")
    if names:
        files.delete(ASIDE)


def retain(spark: SparkSession, root: str, days: int, today: date) -> int:
    """Remove days that are older; returns how many folders were removed."""
    files = LakeFiles(spark, root)
    limit = (today - timedelta(days=days)).isoformat()
    gone = [day for day in _days(files) if day.date < limit]
    for day in gone:
        files.delete(str(day))
    return len(gone)


def _days(files: LakeFiles) -> Iterator[ArchiveFolder]:
    for stream in files.names():
        if stream.startswith("stream="):
            for day in files.names(stream):
                yield ArchiveFolder(stream.removeprefix("stream="), day.removeprefix("date="))


def _committed(files: LakeFiles) -> int:
    """The number of the last batch that the archive's query has committed; -1 for none."""
    numbers = [int(name) for name in files.names(f"{CHECKPOINT}/commits") if name.isdigit()]
    return max(numbers, default=-1)
