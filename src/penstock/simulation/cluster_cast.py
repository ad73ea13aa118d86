"""The programs of a cluster's scenario: each knows the addresses of all servers."""

from penstock.client.uri import Address
from penstock.node.durable_answer import DurableAnswer
from penstock.simulation.administrator import Administrator
from penstock.simulation.amqp10_receiver import Amqp10Receiver
from penstock.simulation.amqp10_sender import Amqp10Sender
from penstock.simulation.amqp10_transactor import Amqp10Transactor
from penstock.simulation.book import Book
from penstock.simulation.book_publisher import BookPublisher
from penstock.simulation.caller import HEARTBEAT_SECONDS, Caller
from penstock.simulation.careless_consumer import CarelessConsumer
from penstock.simulation.cast import STREAM_ROUTES
from penstock.simulation.clock import VirtualClock
from penstock.simulation.cluster_host import ClusterHost
from penstock.simulation.cluster_ledger import DRIFT_MS, ClusterLedger
from penstock.simulation.cluster_operator import ClusterOperator
from penstock.simulation.consumer import Consumer
from penstock.simulation.dice import Dice
from penstock.simulation.job import Job
from penstock.simulation.lease_book import LeaseBook
from penstock.simulation.lease_job import LeaseJob
from penstock.simulation.mover import Mover
from penstock.simulation.moving_book import ROUTES as MOVING_ROUTES
from penstock.simulation.moving_book import STRAIGHT, MovingBook
from penstock.simulation.network import Network
from penstock.simulation.offset_reader import OffsetReader
from penstock.simulation.plans import Scenario
from penstock.simulation.publisher import Order, Publisher
from penstock.simulation.queue_move_book import QueueMoveBook
from penstock.simulation.queue_move_job import QueueMoveJob
from penstock.simulation.retention_book import RetentionBook
from penstock.simulation.scenarios import LEASED, QUAY, STREAM, STREAM_NAMES
from penstock.simulation.sink_book import SinkBook
from penstock.simulation.sink_drain import SinkDrain
from penstock.simulation.sink_job import SinkJob
from penstock.simulation.stream_book import StreamBook, stream_of
from penstock.simulation.transactional import TransactionalPublisher
from penstock.simulation.transactional_consumer import TransactionalConsumer
from penstock.simulation.workplace import RootPlace


class ClusterCast:
    """Held by the run."""

    def __init__(
        self, scenario: Scenario, clock: VirtualClock, dice: Dice, network: Network,
        ledger: ClusterLedger, hosts: list[ClusterHost],
    ) -> None:  # fmt: skip
        self._scenario = scenario
        self._clock = clock
        self._dice = dice
        self._network = network
        self._ledger = ledger
        self._addresses = [
            Address(host.name, frame_max=scenario.frame_max, heartbeat_seconds=HEARTBEAT_SECONDS)
            for host in hosts
        ]
        self.programs: list[Caller] = []
        self.jobs: list[Job] = []
        # Whether everything that was made for them is committed.
        self.is_ready = True
        self._add_publishers()
        self._add_consumers()
        self._add_amqp10()
        self._add_jobs(RootPlace(hosts))
        if scenario.stream_publisher_count:
            plans = scenario.retention
            book = RetentionBook(ledger, plans) if plans else StreamBook(ledger, STREAM_NAMES)
            self._add_stream_users(book, hosts)
        if scenario.mover_count:
            self._add_movers(MovingBook(ledger), hosts)
        for _ in range(scenario.operator_count):
            name, dice = self._next()
            first = self._addresses[0]
            self._add(ClusterOperator(name, first, clock, dice, network, ledger, hosts[0]), dice)

    def _next(self) -> tuple[str, Dice]:
        name = f"p{len(self.programs) + len(self.jobs)}"
        return name, self._dice.fork(name)

    def _add(self, program: Caller, dice: Dice) -> None:
        turn = dice.between(0, len(self._addresses) - 1)
        program.know(self._addresses[turn:] + self._addresses[:turn])
        self.programs.append(program)
        program.connect()

    def _add_publishers(self) -> None:
        kinds: list[type[Publisher]] = [Publisher] * self._scenario.publisher_count
        kinds += [TransactionalPublisher] * self._scenario.transactional_count
        for make in kinds:
            name, dice = self._next()
            publisher = make(
                name, self._addresses[0], self._clock, dice, self._network, self._ledger,
                self._scenario,
            )  # fmt: skip
            self._add(publisher, dice)

    def _add_amqp10(self) -> None:
        scenario, ledger, first = self._scenario, self._ledger, self._addresses[0]
        for _ in range(scenario.sender_count):
            name, dice = self._next()
            sender = Amqp10Sender(
                name, first, self._clock, dice, self._network, ledger, scenario, ledger
            )
            self._add(sender, dice)
        read = [plan for plan in scenario.topology.queues if not plan.is_unread]
        for plan in read:
            for _ in range(scenario.receivers_per_queue):
                name, dice = self._next()
                receiver = Amqp10Receiver(
                    name, first, self._clock, dice, self._network, ledger, scenario, ledger,
                    plan.name,
                )  # fmt: skip
                self._add(receiver, dice)
        for number in range(scenario.transactor_count):
            name, dice = self._next()
            transactor = Amqp10Transactor(
                name, first, self._clock, dice, self._network, ledger, scenario, ledger,
                read[number % len(read)].name,
            )  # fmt: skip
            self._add(transactor, dice)

    def _add_stream_users(self, book: StreamBook, hosts: list[ClusterHost]) -> None:
        for number in range(self._scenario.stream_publisher_count):
            self._add_book_publisher(book, STREAM_ROUTES, numbers=number % 2 == 0)
        self._add_readers(book, STREAM_NAMES, hosts)

    def _add_movers(self, book: MovingBook, hosts: list[ClusterHost]) -> None:
        """One more publishes straight to the stream, and counts."""
        self._add_book_publisher(book, STRAIGHT, numbers=True)
        for _ in range(self._scenario.mover_count):
            self._add_book_publisher(book, MOVING_ROUTES)
            name, dice = self._next()
            mover = Mover(name, self._addresses[0], self._clock, dice, self._network, self._ledger)
            self._add(mover, dice)
        self._add_readers(book, (STREAM,), hosts)

    def _add_readers(
        self, book: StreamBook, streams: tuple[str, ...], hosts: list[ClusterHost]
    ) -> None:
        first = self._addresses[0]
        root = next(host for host in hosts if host.may_serve())
        for stream in streams:
            for _ in range(self._scenario.readers_per_stream):
                name, dice = self._next()
                reader = OffsetReader(
                    name, first, self._clock, dice, self._network, self._ledger, book, stream
                )
                opened = stream_of(root.node, stream)
                if reader.cursor and opened is not None:
                    opened.set_cursor(reader.cursor, 0, root.now())
                self._add(reader, dice)
        self.is_ready = False
        DurableAnswer(root.node, self._set_up)
        root.schedule_flush()

    def _set_up(self) -> None:
        self.is_ready = True

    def _add_jobs(self, place: RootPlace) -> None:
        scenario, ledger, clock = self._scenario, self._ledger, self._clock
        for _ in range(scenario.lease_job_count):
            leases = LeaseBook(ledger, clock, DRIFT_MS)
            self._add_book_publisher(leases, [("", LEASED)])
            name, dice = self._next()
            self.jobs.append(LeaseJob(name, clock, dice, ledger, place, leases))
        for _ in range(scenario.move_job_count):
            moves = QueueMoveBook(ledger)
            self._add_book_publisher(moves, [("", QUAY)])
            name, dice = self._next()
            self.jobs.append(QueueMoveJob(name, clock, dice, ledger, place, moves))
        for _ in range(scenario.administrator_count):
            name, dice = self._next()
            self.jobs.append(Administrator(name, clock, dice, ledger, place))
        for _ in range(scenario.sink_job_count):
            sinks = SinkBook(ledger)
            name, dice = self._next()
            self.jobs.append(SinkJob(name, clock, dice, ledger, place, sinks))
            name, dice = self._next()
            self.jobs.append(SinkDrain(name, clock, dice, ledger, place, sinks))

    def _add_book_publisher(
        self, book: Book, routes: list[Order], *, numbers: bool = False
    ) -> None:
        name, dice = self._next()
        if numbers:
            book.numbering.add(name)
        publisher = BookPublisher(
            name, self._addresses[0], self._clock, dice, self._network, self._ledger,
            self._scenario, book, routes,
        )  # fmt: skip
        self._add(publisher, dice)

    def _add_consumers(self) -> None:
        scenario = self._scenario
        kinds: list[type[Consumer]] = [Consumer] * scenario.consumers_per_queue
        kinds += [TransactionalConsumer] * scenario.transactional_consumers_per_queue
        kinds += [CarelessConsumer] * scenario.careless_consumers_per_queue
        for plan in scenario.topology.queues:
            for make in kinds if not plan.is_unread else ():
                name, dice = self._next()
                consumer = make(
                    name, self._addresses[0], self._clock, dice, self._network, self._ledger,
                    scenario, plan.name,
                )  # fmt: skip
                self._add(consumer, dice)
