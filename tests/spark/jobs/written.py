"""Ledgers written record by record, for tests."""

from __future__ import annotations

from pathlib import Path

from penstock.formats import ledger_records as form
from penstock.formats import ledger_records as records


class Book:
    """One file of a ledger in the making; its time grows by a millisecond with each record."""

    def __init__(self, folder: Path, magic: bytes, number: int = 1, time: int = 1_000) -> None:
        self._folder = folder
        self._number = number
        self._pieces = [form.head(magic)]
        self._names = 0
        self._publishers = 0
        self._magic = magic
        self.time = time

    def name(
        self, vhost: str, queue: str, publisher: str = "", flags: int = 0, number: int = 0
    ) -> int:
        """`number` is that of a replicated queue of a cluster."""
        if self._magic == form.CLIENT_MAGIC:
            text = form.client_name(vhost, queue, publisher)
        else:
            text = form.broker_name(vhost, queue)
        self._pieces.append(form.name_record(self.time, self._names, text, flags, number))
        self._names += 1
        return self._names - 1

    def member(self, server: str, members: str = "a,b,c", cluster: str = "c0ffee") -> int:
        text = form.member_name(cluster, server, members.split(","))
        self._pieces.append(form.name_record(self.time, self._names, text, form.IS_MEMBER))
        self._names += 1
        return self._names - 1

    def root(self, server: str, epoch: int, before: int, members: str = "a,b,c") -> None:
        """A term begins; its first tick is committed by the next record of that kind."""
        name = self.member(server, members)
        self.add(form.ROOT, name, epoch, before)

    def continues(self, server: str, epoch: int, before: int) -> None:
        self.add(form.ROOT, self.member(server), epoch, before, form.CONTINUES)

    def committed(self, position: int, lag: int = 0) -> None:
        """The records before it are in the journal up to a position, of which so much is not
        committed.
        """
        self.add(form.COMMITTED, 0, position, lag)

    def route(self, exchange: str, key: str) -> int:
        self._pieces.append(
            form.name_record(self.time, self._names, f"/\0{exchange}\0{key}".encode())
        )
        self._names += 1
        return self._names - 1

    def publisher(self, session: str, serial: int = 1, high: int = 0) -> int:
        """Of a broker's ledger: a channel whose client has named it."""
        self._publishers += 1
        text = f"/\0{session}\0{serial}".encode()
        self._pieces.append(
            form.name_record(self.time, self._publishers, text, form.IS_PUBLISHER, high)
        )
        return self._publishers

    def session(self, session: str, publisher: str, *tags: tuple[int, int]) -> None:
        """Of a client's: tags and the sequences they stand for."""
        text = form.client_name("/", session, publisher)
        self._pieces.append(form.name_record(self.time, self._names, text, form.IS_SESSION))
        for tag, sequence in tags:
            self._pieces.append(form.tagged_record(self.time, self._names, tag, sequence))
        self._names += 1

    def add(
        self,
        event: int,
        name: int = 0,
        first: int = 0,
        count: int = 0,
        detail: int = 0,
        publisher: int = 0,
        sequence: int = 0,
    ) -> None:
        if event not in {form.STARTED, form.RESTORED}:
            self.time += 1
        self._pieces.append(
            form.record(self.time, event, detail, name, first, count, publisher, sequence)
        )

    def add_listed(
        self, name: int, first: int, publisher: int, sequences: list[int], detail: int = 1
    ) -> None:
        """ENQUEUED with tags that do not follow one another."""
        detail |= form.HAS_SEQUENCES
        self.add(form.ENQUEUED, name, first, len(sequences), detail, publisher, sequences[0])
        words: list[int] = []
        records.add_sequences(words, [tag - sequences[0] for tag in sequences])
        self._pieces.append(records.packed(words))

    def write(self) -> Path:
        """The folder, to be read."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{self._number:012d}.led"
        path.write_bytes(b"".join(self._pieces))
        return self._folder
