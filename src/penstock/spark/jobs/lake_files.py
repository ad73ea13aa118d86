"""Files of an archive, wherever Spark can write: a disk, HDFS, an object store.

Spark brings Hadoop's file systems along; these few calls go to them through the driver's JVM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.spark.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LakeFiles:
    """Held by the driver while it works on an archive. Paths are relative to its root."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        context = spark.sparkContext
        jvm: Any = context._jvm  # noqa: SLF001 there is no other way to Hadoop's file systems
        configuration = context._jsc.hadoopConfiguration()  # noqa: SLF001 as above
        self._path: Any = jvm.org.apache.hadoop.fs.Path
        home = self._path(root)
        self._system: Any = home.getFileSystem(configuration)
        # With its scheme, so that nothing depends on where Spark thinks it is.
        self.root = str(self._system.makeQualified(home).toString())

    def full(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    def names(self, folder: str = "") -> list[str]:
        """What lies in a folder, sorted; nothing when there is none."""
        path = self._path(self.full(folder))
        if not self._system.exists(path):
            return []
        return sorted(str(status.getPath().getName()) for status in self._system.listStatus(path))

    def exists(self, name: str) -> bool:
        return bool(self._system.exists(self._path(self.full(name))))

    def delete(self, name: str) -> None:
        self._system.delete(self._path(self.full(name)), True)

    def rename(self, name: str, other: str) -> None:
        target = self._path(self.full(other))
        self._system.mkdirs(target.getParent())
        if not self._system.rename(self._path(self.full(name)), target):
            raise PipelineError(f"cannot rename {self.full(name)} to {self.full(other)}")

    def write(self, name: str, text: str) -> None:
        stream = self._system.create(self._path(self.full(name)), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def read(self, name: str) -> str:
        path = self._path(self.full(name))
        stream = self._system.open(path)
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()
