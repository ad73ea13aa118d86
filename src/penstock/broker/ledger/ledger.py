"""The ledger of one broker: files of records, the newest one growing with every tick.

It is written at the end of a tick, before any client is answered, and is not flushed: it is
complete after the process was killed, and may lack its tail after a power loss. Counts of routes
are for people who watch the flow, and are written once a second.

In a cluster it has records for the time in which this server is the root, its term; backups write
nothing. Beside what happened it then says how much of that is committed.

Invariants
- a file is self-contained: it names everything it refers to;
- no more than `files_max` files are kept, the oldest goes first.
"""

from typing import Final

from penstock.broker.arguments import STREAM
from penstock.broker.ledger.queue_ledger import PUBLISHERS_MAX, LedgerPages, QueueLedger
from penstock.broker.ledger.routes import ROUTES_MAX, Routes
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.shared_services import QueueWatcher, RouteCount
from penstock.broker.state import BrokerState
from penstock.formats import ledger_records as records
from penstock.world.disk import AppendFile, Disk

FOLDER: Final = "ledger"
# A file of this size holds two million runs, which can be millions or billions of messages.
FILE_BYTES_MAX: Final = 64 * 1024 * 1024
# Four gigabytes, some days of a busy broker.
FILES_MAX: Final = 64
# Thousands of routes may be busy, each with a record each time.
ROUTES_EVERY_MS: Final = 1000
_DIGITS: Final = 12


class Ledger(QueueWatcher):
    """Held by a node that was asked for one, and by its state as the watcher of new queues."""

    def __init__(
        self,
        state: BrokerState,
        disk: Disk,
        wall: int,
        file_bytes_max: int = FILE_BYTES_MAX,
        files_max: int = FILES_MAX,
        routes_max: int = ROUTES_MAX,
    ) -> None:
        self._state: BrokerState = state
        self._disk: Disk = disk
        self._file_bytes_max: int = file_bytes_max
        self._files_max: int = files_max
        self._pages: LedgerPages = LedgerPages()
        self._pages.time = wall
        self._queues: dict[MessageQueue, QueueLedger] = {}
        self._routes: Routes = Routes(wall, routes_max)
        self._counted_at: int = wall
        self._name_count: int = 0
        self._numbers: list[int] = sorted(
            [int(name[len(FOLDER) + 1 : -4]) for name in disk.names() if is_ledger(name)]
        )
        self._file: AppendFile | None = None
        self._size: int = 0
        # Of a member of a cluster: cluster, server and members; and the term, once it was the root.
        self._member: bytes = b""
        self._epoch: int = 0
        self._before: int = 0
        # Where the journal ends with this tick, and up to where it is committed; and what the last
        # record about that said.
        self._written: int = 0
        self._committed: int = 0
        self._noted: int = 0
        self._noted_lag: int = 0
        self._begin_file()
        records.add_record(self._pages.words, wall, records.STARTED, 0, 0, 0, 0)
        state.watch_queues(self)
        # A backup may be behind: the next root says what the cluster has.
        if state.decides:
            self._watch_all()
        self.end_of_tick(wall)

    def _watch_all(self) -> None:
        for vhost in self._state.vhosts.values():
            for queue in vhost.queues.values():
                self.watch(queue)
                self._note_restored(queue)

    def is_member(self, cluster: str, server: str, members: list[str]) -> None:
        self._member = records.member_name(cluster, server, members)
        # Whose ledger this is must be known also if this server is never the root.
        self._next_name(records.IS_MEMBER, self._member)

    def watch(self, queue: MessageQueue) -> None:
        """A queue was declared: from now on its messages are written down. Not on a backup: the
        root's ledger has them.
        """
        if not self._state.decides:
            return
        known = QueueLedger(self._pages, self._named(queue))
        self._queues[queue] = known
        queue.observers.append(known)

    def forget(self, queue: MessageQueue) -> None:
        ledger = self._queues.pop(queue, None)
        if ledger is not None:
            # Its number may come to mean another queue in the next file.
            ledger.close_run()
            queue.observers.remove(ledger)

    def inherit(self, epoch: int, before: int, wall: int) -> None:
        """A term begins: its queues are named, with what they hold."""
        self._epoch = epoch
        self._before = before
        self._pages.time = wall
        self._name_term(0)
        self._watch_all()

    def committed(self, written: int, committed: int) -> None:
        """At the end of each tick of a member: where its journal ends, and up to where everybody
        who must have it has it.
        """
        self._written = written
        self._committed = committed

    def route(self, vhost: str, exchange: str, key: str) -> RouteCount:
        return self._routes.find(vhost, exchange, key)

    def has_work(self) -> bool:
        """Whether the tick brought something that must be written at its end."""
        return self._pages.has_work()

    def end_of_tick(self, wall: int) -> None:
        """Write what the tick brought. Raises DiskError."""
        pages = self._pages
        if pages.open:
            for ledger in pages.open:
                ledger.end_of_tick()
            pages.open.clear()
        pages.time = wall
        if self._is_root():
            self._note_committed()
        octets = pages.take()
        if octets:
            assert self._file is not None, "there is a file from the start"
            self._file.append(octets)
            self._size += len(octets)
            if self._size >= self._file_bytes_max or pages.publisher_count >= PUBLISHERS_MAX:
                self._begin_file()

    def _is_root(self) -> bool:
        return self._epoch > 0 and self._state.decides

    def _note_committed(self) -> None:
        """Behind everything else of a tick, and before a client hears that it is confirmed."""
        pages = self._pages
        is_news = self._noted_lag > 0 and self._committed > self._noted - self._noted_lag
        if is_news or pages.has_work():
            self._noted = self._written
            self._noted_lag = self._written - self._committed
            records.add_record(
                pages.words, pages.time, records.COMMITTED, 0, 0, self._noted, self._noted_lag
            )

    def sweep(self, wall: int, is_last: bool) -> None:
        """A few times a second, and when the broker stops. Raises DiskError."""
        if is_last or not 0 <= wall - self._counted_at < ROUTES_EVERY_MS:
            self._counted_at = wall
            self._count_routes(wall)

    def _count_routes(self, wall: int) -> None:
        """Write how much was published where."""
        pages = self._pages
        pages.time = wall
        for route in self._routes.all():
            if route.count:
                if route.file != pages.file:
                    route.file = pages.file
                    route.name = self._next_name(0, route.text)
                records.add_record(pages.words, wall, records.ROUTED, 0, route.name, 0, route.count)
                route.count = 0
        if not pages.open:
            # Otherwise the current tick writes it, after the journal.
            self.end_of_tick(wall)
        if self._routes.renew(wall):
            # Targets that dialects have resolved still refer to lines of the old table.
            for vhost in self._state.vhosts.values():
                vhost.routing.changed()

    def _named(self, queue: MessageQueue) -> int:
        flags = records.IS_STREAM if queue.queue_type is STREAM else 0
        if queue.durable:
            flags |= records.IS_DURABLE
        text = records.broker_name(queue.vhost.name, queue.name)
        return self._next_name(flags, text, queue.number)

    def _name_term(self, detail: int) -> None:
        name = self._next_name(records.IS_MEMBER, self._member)
        pages = self._pages
        records.add_record(
            pages.words, pages.time, records.ROOT, detail, name, self._epoch, self._before
        )

    def _next_name(self, flags: int, text: bytes, first: int = 0) -> int:
        number = self._name_count
        self._name_count += 1
        self._pages.add_name(records.name_record(self._pages.time, number, text, flags, first))
        return number

    def _note_restored(self, queue: MessageQueue) -> None:
        # A priority queue lists its positions level by level; sorted they are few runs.
        positions = queue.journal_list().positions()
        positions.sort()
        self._queues[queue].restored(positions)

    def _begin_file(self) -> None:
        if self._file is not None:
            self._file.close()
        number = self._numbers[-1] + 1 if self._numbers else 1
        self._numbers.append(number)
        self._file = self._disk.open(f"{FOLDER}/{number:0{_DIGITS}d}{records.SUFFIX}")
        head = records.head(records.BROKER_MAGIC)
        self._file.append(head)
        self._size = len(head)
        self._name_count = 0
        self._pages.file = number
        self._pages.publisher_count = 0
        if self._is_root():
            self._name_term(records.CONTINUES)
        for queue, ledger in self._queues.items():
            ledger.name = self._named(queue)
        while len(self._numbers) > self._files_max:
            self._disk.remove(f"{FOLDER}/{self._numbers.pop(0):0{_DIGITS}d}{records.SUFFIX}")


def is_ledger(name: str) -> bool:
    return name.startswith(FOLDER + "/") and name.endswith(records.SUFFIX)
