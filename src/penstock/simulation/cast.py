"""The programs of a scenario: the clients of one node, and the jobs beside it."""

from typing import Final

from penstock.client.uri import Address
from penstock.simulation.administrator import Administrator
from penstock.simulation.amqp10_receiver import Amqp10Receiver
from penstock.simulation.amqp10_sender import Amqp10Sender
from penstock.simulation.amqp10_transactor import Amqp10Transactor
from penstock.simulation.book import Book
from penstock.simulation.book_publisher import BookPublisher
from penstock.simulation.caller import HEARTBEAT_SECONDS, Caller
from penstock.simulation.careless_consumer import CarelessConsumer
from penstock.simulation.clock import VirtualClock
from penstock.simulation.consumer import Consumer
from penstock.simulation.dice import Dice
from penstock.simulation.durable_host import DurableHost
from penstock.simulation.host import Host
from penstock.simulation.job import Job
from penstock.simulation.lease_book import LeaseBook
from penstock.simulation.lease_job import LeaseJob
from penstock.simulation.ledger import Ledger
from penstock.simulation.mover import Mover
from penstock.simulation.moving_book import ROUTES as MOVING_ROUTES
from penstock.simulation.moving_book import STRAIGHT, MovingBook
from penstock.simulation.network import Network
from penstock.simulation.offset_reader import OffsetReader
from penstock.simulation.operator import Operator
from penstock.simulation.plans import Scenario
from penstock.simulation.publisher import Order, Publisher
from penstock.simulation.queue_move_book import QueueMoveBook
from penstock.simulation.queue_move_job import QueueMoveJob
from penstock.simulation.remover import Remover
from penstock.simulation.scenarios import LEASED, PARTITIONED_STREAM, QUAY, STREAM, STREAM_NAMES
from penstock.simulation.sink_book import SinkBook
from penstock.simulation.sink_drain import SinkDrain
from penstock.simulation.sink_job import SinkJob
from penstock.simulation.stream_book import StreamBook, stream_of
from penstock.simulation.transactional import TransactionalPublisher
from penstock.simulation.transactional_consumer import TransactionalConsumer

NUMBERS_CHANCE: Final = 0.6
# Routing keys that spread over the partitions of a stream.
KEYS: Final = ("red", "green", "blue", "grey")
STREAM_ROUTES: Final = [("", STREAM), *[(PARTITIONED_STREAM, key) for key in KEYS]]


class Cast:
    """Held by the run, one for each node."""

    def __init__(
        self, scenario: Scenario, clock: VirtualClock, dice: Dice, network: Network,
        ledger: Ledger, host: Host,
    ) -> None:  # fmt: skip
        self._scenario = scenario
        self._clock = clock
        self._dice = dice
        self._network = network
        self._ledger = ledger
        self._host = host
        self._address = Address(
            host.name, frame_max=scenario.frame_max, heartbeat_seconds=HEARTBEAT_SECONDS
        )
        self.programs: list[Caller] = []
        self.jobs: list[Job] = []
        self._add_operators()
        self._add_publishers()
        self._add_consumers()
        if scenario.stream_publisher_count:
            self._add_stream_users(StreamBook(ledger, STREAM_NAMES))
        if scenario.mover_count:
            self._add_movers(MovingBook(ledger))
        self._add_amqp10()
        self._add_removers()
        if isinstance(host, DurableHost):
            self._add_jobs(host)

    def connect(self) -> None:
        for program in self.programs:
            program.connect()

    def _add_operators(self) -> None:
        for number in range(self._scenario.operator_count):
            name = f"{self._host.name}o{number}"
            dice = self._dice.fork(name)
            self.programs.append(
                Operator(
                    name, self._address, self._clock, dice, self._network, self._ledger, self._host
                )
            )

    def _add_publishers(self) -> None:
        kinds: list[type[Publisher]] = [Publisher] * self._scenario.publisher_count
        kinds += [TransactionalPublisher] * self._scenario.transactional_count
        for number, make in enumerate(kinds):
            name = f"{self._host.name}p{number}"
            dice = self._dice.fork(name)
            self.programs.append(
                make(
                    name, self._address, self._clock, dice, self._network, self._ledger,
                    self._scenario,
                )
            )  # fmt: skip

    def _add_consumers(self) -> None:
        scenario = self._scenario
        kinds: list[type[Consumer]] = [Consumer] * scenario.consumers_per_queue
        kinds += [TransactionalConsumer] * scenario.transactional_consumers_per_queue
        kinds += [CarelessConsumer] * scenario.careless_consumers_per_queue
        for plan in scenario.topology.queues:
            for number, make in enumerate(kinds if not plan.is_unread else ()):
                name = f"{self._host.name}c{plan.name}{number}"
                dice = self._dice.fork(name)
                self.programs.append(
                    make(
                        name, self._address, self._clock, dice, self._network, self._ledger,
                        scenario, plan.name,
                    )
                )  # fmt: skip

    def _add_amqp10(self) -> None:
        scenario = self._scenario
        for number in range(scenario.sender_count):
            name = f"{self._host.name}a{number}"
            self.programs.append(
                Amqp10Sender(
                    name, self._address, self._clock, self._dice.fork(name), self._network,
                    self._ledger, scenario, self._host,
                )
            )  # fmt: skip
        for plan in scenario.topology.queues:
            for number in range(scenario.receivers_per_queue if not plan.is_unread else 0):
                name = f"{self._host.name}g{plan.name}{number}"
                self.programs.append(
                    Amqp10Receiver(
                        name, self._address, self._clock, self._dice.fork(name), self._network,
                        self._ledger, scenario, self._host, plan.name,
                    )
                )  # fmt: skip

        plans = [plan for plan in scenario.topology.queues if not plan.is_unread]
        for number in range(scenario.transactor_count):
            name = f"{self._host.name}t{number}"
            self.programs.append(
                Amqp10Transactor(
                    name, self._address, self._clock, self._dice.fork(name), self._network,
                    self._ledger, scenario, self._host, plans[number % len(plans)].name,
                )
            )  # fmt: skip

    def _add_removers(self) -> None:
        for queue, watch in self._ledger.watches.items():
            if watch.plan.may_vanish:
                name = f"{self._host.name}x{queue}"
                dice = self._dice.fork(name)
                self.jobs.append(Remover(name, self._clock, dice, self._ledger, self._host, watch))

    def _add_stream_users(self, book: StreamBook) -> None:
        for number in range(self._scenario.stream_publisher_count):
            name = f"{self._host.name}s{number}"
            if self._dice.fork(f"{name} numbers").chance(NUMBERS_CHANCE):
                book.numbering.add(name)
            self._add_book_publisher(name, book, STREAM_ROUTES)
        self._add_readers(book, STREAM_NAMES)

    def _add_movers(self, book: MovingBook) -> None:
        """One more publishes straight to the stream, and counts."""
        straight = f"{self._host.name}s"
        book.numbering.add(straight)
        self._add_book_publisher(straight, book, STRAIGHT)
        for number in range(self._scenario.mover_count):
            name = f"{self._host.name}m{number}"
            self._add_book_publisher(f"{name}p", book, MOVING_ROUTES)
            dice = self._dice.fork(name)
            self.programs.append(
                Mover(name, self._address, self._clock, dice, self._network, self._ledger)
            )
        self._add_readers(book, (STREAM,))

    def _add_readers(self, book: StreamBook, streams: tuple[str, ...]) -> None:
        for stream in streams:
            for number in range(self._scenario.readers_per_stream):
                name = f"{self._host.name}r{stream}{number}"
                dice = self._dice.fork(name)
                reader = OffsetReader(
                    name, self._address, self._clock, dice, self._network, self._ledger, book,
                    stream,
                )  # fmt: skip
                self.programs.append(reader)
                opened = stream_of(self._host.node, stream)
                if reader.cursor and opened is not None:
                    opened.set_cursor(reader.cursor, 0, self._host.now())
                    self._host.schedule_flush()

    def _add_book_publisher(self, name: str, book: Book, routes: list[Order]) -> None:
        self.programs.append(
            BookPublisher(
                name, self._address, self._clock, self._dice.fork(name), self._network,
                self._ledger, self._scenario, book, routes,
            )
        )  # fmt: skip

    def _add_jobs(self, host: DurableHost) -> None:
        scenario = self._scenario
        if scenario.lease_job_count:
            leases = LeaseBook(self._ledger, self._clock)
            for number in range(scenario.lease_job_count):
                name = f"{host.name}l{number}"
                self._add_book_publisher(f"{name}p", leases, [("", LEASED)])
                dice = self._dice.fork(name)
                self.jobs.append(LeaseJob(name, self._clock, dice, self._ledger, host, leases))
        if scenario.move_job_count:
            moves = QueueMoveBook(self._ledger)
            for number in range(scenario.move_job_count):
                name = f"{host.name}v{number}"
                self._add_book_publisher(f"{name}p", moves, [("", QUAY)])
                dice = self._dice.fork(name)
                self.jobs.append(QueueMoveJob(name, self._clock, dice, self._ledger, host, moves))
        for number in range(scenario.administrator_count):
            name = f"{host.name}u{number}"
            dice = self._dice.fork(name)
            self.jobs.append(Administrator(name, self._clock, dice, self._ledger, host))
        if scenario.sink_job_count:
            sinks = SinkBook(self._ledger)
            for number in range(scenario.sink_job_count):
                name = f"{host.name}b{number}"
                dice = self._dice.fork(name)
                self.jobs.append(SinkJob(name, self._clock, dice, self._ledger, host, sinks))
            dice = self._dice.fork(f"{host.name}d")
            drain = SinkDrain(f"{host.name}d", self._clock, dice, self._ledger, host, sinks)
            self.jobs.append(drain)
