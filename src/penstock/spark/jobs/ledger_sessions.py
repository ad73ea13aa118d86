"""Sessions: names that brokers and clients share, so that their ledgers can be compared.

A session of two channels, or of two publishers, cannot be used: its publishers are then compared by
counts, like those whose connections have no name.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from penstock.formats import ledger_records as form
from penstock.spark.jobs.ledger_origins import FileOrigins, Session

if TYPE_CHECKING:
    from penstock.spark.jobs.ledger_survey import FileFacts

# Virtual host and name.
Key = tuple[str, str]


class Sessions:
    """Held while a catalog is made."""

    def __init__(self) -> None:
        # Which channels of which start of which server had the name.
        self._channels: dict[Key, set[tuple[str, int, str]]] = defaultdict(set)
        # By file: number of the publisher, its session, high bits of its tags.
        self._in_files: dict[str, list[tuple[int, Key, int]]] = defaultdict(list)
        self._tags: dict[Key, list[tuple[int, int]]] = defaultdict(list)
        self._publishers: dict[Key, set[str]] = defaultdict(set)
        self._known: dict[Key, Session] = {}

    def add_broker(self, server: str, start: int, known: FileFacts) -> None:
        for named in known.names:
            if named.is_publisher:
                key = (named.vhost, named.queue)
                self._channels[key].add((server, start, named.third))
                self._in_files[known.path].append((named.number, key, named.first))

    def add_client(self, known: FileFacts) -> None:
        keys: dict[int, Key] = {}
        for named in known.names:
            if named.flags & form.IS_SESSION:
                keys[named.number] = (named.vhost, named.queue)
                self._publishers[named.vhost, named.queue].add(named.third)
        for number, tag, sequence in known.tags:
            self._tags[keys[number]].append((tag, sequence))

    def publishers(self) -> set[str]:
        """The publishers whose messages brokers can identify; ends the collecting."""
        doubtful: set[str] = set()
        for key, names in self._publishers.items():
            channels = self._channels.get(key, set())
            if len(names) > 1 or len(channels) > 1:
                doubtful |= names
        for key, names in self._publishers.items():
            if key in self._channels and not names & doubtful:
                tags = sorted(self._tags[key])
                (publisher,) = names
                self._known[key] = Session(
                    publisher, tuple(tag for tag, _ in tags), tuple(number for _, number in tags)
                )
        return {session.publisher for session in self._known.values()}

    def origins(self, path: str, pairs: dict[tuple[str, int], int]) -> FileOrigins | None:
        found = {
            number: (high, self._known[key])
            for number, key, high in self._in_files.get(path, ())
            if key in self._known
        }
        return FileOrigins(found, pairs) if found else None
