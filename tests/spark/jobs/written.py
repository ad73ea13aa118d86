"""Ledgers written record by record, for tests."""

from __future__ import annotations

from pathlib import Path

from penstock.spark.jobs import ledger_form as form


class Book:
    """One file of a ledger in the making; its time grows by a millisecond with each record."""

    def __init__(self, folder: Path, magic: bytes, number: int = 1, time: int = 1_000) -> None:
        self._folder = folder
        self._number = number
        self._pieces = [form.head(magic)]
        self._names = 0
        self._magic = magic
        self.time = time

    def name(self, vhost: str, queue: str, publisher: str = "") -> int:
        if self._magic == form.CLIENT_MAGIC:
            text = form.client_name(vhost, queue, publisher)
        else:
            text = form.broker_name(vhost, queue)
        self._pieces.append(form.name_record(self.time, self._names, text))
        self._names += 1
        return self._names - 1

    def route(self, exchange: str, key: str) -> int:
        self._pieces.append(
            form.name_record(self.time, self._names, f"/\0{exchange}\0{key}".encode())
        )
        self._names += 1
        return self._names - 1

    def add(
        self, event: int, name: int = 0, first: int = 0, count: int = 0, detail: int = 0
    ) -> None:
        if event not in {form.STARTED, form.RESTORED}:
            self.time += 1
        self._pieces.append(form.record(self.time, event, detail, name, first, count))

    def write(self) -> Path:
        """The folder, to be read."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{self._number:012d}.led"
        path.write_bytes(b"".join(self._pieces))
        return self._folder
