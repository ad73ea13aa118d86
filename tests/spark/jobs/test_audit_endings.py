"""Whatever becomes of a message, the audit calls it lost only when it is, on real Spark."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from penstock.cli.demo_steps.lasting_client import hang_up
from penstock.cli.loading.client_ledger import ClientLedger
from penstock.client import blocking
from penstock.client.calls import (
    commit,
    consume,
    declare_queue,
    delete_queue,
    limit_prefetch,
    purge_queue,
    rollback,
    select_transactions,
)
from penstock.formats import ledger_records as form
from penstock.spark.jobs.audit import audit
from penstock.spark.jobs.ledger_reading import open_ledgers
from penstock.wire.amqp091.content import BasicProperties
from tests.spark.broker_process import BrokerProcess
from tests.spark.jobs.written import Book

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.client.blocking_channel import BlockingChannel
    from penstock.client.events import Delivered
    from penstock.spark.jobs.verdict import Audit, QueueVerdict

pytestmark = pytest.mark.slow

# Three blocks of positions for each queue.
MESSAGES = 12_000
# Of so many blocks only one in all is sampled, so that nothing is found by luck.
ONE_BLOCK = 1
SECONDS_MAX = 120.0


def by_name(found: Audit) -> dict[str, QueueVerdict]:
    return {verdict.queue: verdict for verdict in found.verdicts}


class Sides:
    """The broker's and the clients' ledger of one publisher with a session."""

    def __init__(self, folder: Path, is_identified: bool) -> None:
        self.broker = Book(folder / "server", form.BROKER_MAGIC)
        self.broker.add(form.STARTED)
        self.clients = Book(folder / "clients", form.CLIENT_MAGIC)
        self._is_identified = is_identified
        self._publisher = 0

    def published(self, queue: str, confirmed: int = MESSAGES, detail: int = 1) -> tuple[int, int]:
        """MESSAGES to one queue, all of them enqueued; returns the numbers of both names."""
        self._publisher += 1
        who = f"p{self._publisher}"
        name = self.broker.name("/", queue)
        number = self.broker.publisher(f"{who}/1") if self._is_identified else 0
        self.broker.add(form.ENQUEUED, name, 1, MESSAGES, detail, number, 1)
        own, pair = self.clients.name("/", "", who), self.clients.name("/", queue, who)
        self.clients.add(form.REACHES, pair)
        self.clients.add(form.PUBLISHED, own, 0, MESSAGES)
        self.clients.add(form.CONFIRMED, own, 0, confirmed)
        if self._is_identified:
            self.clients.session(f"{who}/1", who, (1, 0))
        return name, pair

    def left(self, name: int, event: int, detail: int = 0, is_delivered: bool = False) -> None:
        if is_delivered:
            self.broker.add(form.DELIVERED, name, 1, MESSAGES)
        self.broker.add(event, name, 1, MESSAGES, detail)

    def audited(self, spark: SparkSession, sampled_blocks: int = ONE_BLOCK) -> Audit:
        ledgers = open_ledgers(spark, [self.broker.write(), self.clients.write()])
        return audit(ledgers, sampled_blocks=sampled_blocks)


@pytest.mark.parametrize("is_identified", [True, False])
def test_what_the_broker_dropped_is_explained_whatever_is_sampled(
    spark: SparkSession, tmp_path: Path, is_identified: bool
) -> None:
    sides = Sides(tmp_path, is_identified)
    for reason, text in enumerate(form.REASONS):
        name, pair = sides.published(f"dropped {text}")
        is_delivered = text in {"rejected", "delivery_limit"}
        sides.left(name, form.DROPPED, reason, is_delivered)
        if is_delivered:
            # A consumer has seen the first half of them, and wanted none.
            sides.clients.add(form.RECEIVED, pair, 0, MESSAGES // 2)
    name, _ = sides.published("leased")
    sides.left(name, form.LEASED, is_delivered=True)
    found = sides.audited(spark)
    queues = by_name(found)
    assert {shown: queue.lost for shown, queue in queues.items() if queue.lost} == {}
    for text in form.REASONS:
        assert queues[f"dropped {text}"].dropped == {text: MESSAGES}
    assert (queues["leased"].leased, queues["leased"].missing_confirmed) == (MESSAGES, MESSAGES)
    assert found.total("phantom") == found.total("duplicated") == 0
    assert found.offences == [] or not is_identified


def test_losses_among_dropped_messages_are_found_whatever_is_sampled(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As many were dropped as are missing, so that only their names tell them apart."""
    sides = Sides(tmp_path, is_identified=True)
    name, pair = sides.published("q")
    maxlen = form.REASONS.index("maxlen")
    sides.broker.add(form.DROPPED, name, 1, 8_000, maxlen)
    # Sequences 8000 and 8100 are acknowledged, and nobody has received them; 17 and 18 were
    # received and then dropped, by a consumer that went away.
    sides.broker.add(form.DELIVERED, name, 8_001, 4_000)
    sides.broker.add(form.ACKNOWLEDGED, name, 8_001, 4_000)
    sides.clients.add(form.RECEIVED, pair, 17, 2)
    sides.clients.add(form.RECEIVED, pair, 8_001, 99)
    sides.clients.add(form.RECEIVED, pair, 8_101, 3_899)
    found = sides.audited(spark)
    (verdict,) = found.verdicts
    assert (verdict.lost, verdict.missing_confirmed) == (2, 8_000)
    assert {(o.finding, o.publisher, o.first, o.count) for o in found.offences} == {
        ("lost", "p1", 8_000, 1),
        ("lost", "p1", 8_100, 1),
    }


def test_neighbouring_messages_are_named_as_one_run(spark: SparkSession, tmp_path: Path) -> None:
    sides = Sides(tmp_path, is_identified=True)
    name, _ = sides.published("q")
    for position in range(1, 40):
        # Each in a record of its own.
        sides.broker.add(form.DELIVERED, name, position, 1)
        sides.broker.add(form.ACKNOWLEDGED, name, position, 1)
    found = sides.audited(spark)
    assert found.total("lost") == 39
    assert [str(offence) for offence in found.offences] == ["q: publisher p1, sequence 0..38"]


def test_what_was_received_and_rejected_explains_no_loss_of_another_publisher(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One with a session, whose messages were all received; one without, whose were not."""
    sides = Sides(tmp_path, is_identified=True)
    name, pair = sides.published("q")
    sides.left(name, form.DROPPED, form.REASONS.index("rejected"), is_delivered=True)
    sides.clients.add(form.RECEIVED, pair, 0, MESSAGES)
    own, other = sides.clients.name("/", "", "n"), sides.clients.name("/", "q", "n")
    sides.clients.add(form.REACHES, other)
    sides.clients.add(form.PUBLISHED, own, 0, 10)
    sides.clients.add(form.CONFIRMED, own, 0, 10)
    (verdict,) = sides.audited(spark).verdicts
    assert (verdict.explained_identified, verdict.lost_unidentified, verdict.lost) == (
        MESSAGES,
        10,
        10,
    )


def test_messages_from_before_the_oldest_file_are_not_called_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What became of them stood in a file that is gone."""
    hour = 3_600_000
    sides = Sides(tmp_path, is_identified=True)
    sides.published("q")
    server = Book(tmp_path / "server", form.BROKER_MAGIC, 7, time=hour)
    name = server.name("/", "q")
    publisher = server.publisher("late/1")
    server.add(form.ENQUEUED, name, MESSAGES + 1, 10, 1, publisher, 1)
    server.add(form.DELIVERED, name, MESSAGES + 1, 10)
    server.add(form.ACKNOWLEDGED, name, MESSAGES + 1, 10)
    late = Book(tmp_path / "clients", form.CLIENT_MAGIC, 2, time=2 * hour)
    own, pair = late.name("/", "", "late"), late.name("/", "q", "late")
    late.add(form.REACHES, pair)
    late.add(form.PUBLISHED, own, 0, 10)
    late.add(form.CONFIRMED, own, 0, 10)
    late.session("late/1", "late", (1, 0))
    late.add(form.RECEIVED, pair, 0, 9)
    sides.clients.write()
    (verdict,) = audit(open_ledgers(spark, [server.write(), late.write()])).verdicts
    assert (verdict.confirmed_not_judged, verdict.lost) == (MESSAGES, 1)


class Crew:
    """A publisher with a session and consumers, which write down what they see of a real broker."""

    def __init__(self, broker: BrokerProcess, folder: Path) -> None:
        self.broker = broker
        self._folder = folder
        self._book = ClientLedger(folder / "sink.led")
        self._faucets = 0

    def declare(self, queue: str, durable: bool = True, **arguments: object) -> None:
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        with self.broker.connection() as connection:
            connection.channel().call(declare_queue(queue, durable=durable, arguments=named))

    def publish(self, queue: str, count: int = 50, **properties: Any) -> None:
        """Each call is a publisher of its own, with confirms; bodies are its name and numbers."""
        self._faucets += 1
        who = f"f{self._faucets}"
        book = ClientLedger(self._folder / f"{who}.led")
        own, pair = book.name("/", "", who), book.name("/", queue, who)
        book.reaches(pair)
        book.add(form.PUBLISHED, own, 0, count)
        chosen = BasicProperties(**{"delivery_mode": 2, **properties})
        with blocking.connect(self.broker.amqp_uri, name=who) as connection:
            channel = connection.channel()
            channel.select_confirms(keep_answers=True)
            book.tagged(book.session("/", who, channel.number, who), 1, 0)
            channel.publish_batch(
                "", [(queue, f"{who} {number}".encode()) for number in range(count)], chosen
            )
            channel.wait_for_confirms()
            for answer in channel.take_confirmed():
                event = form.REFUSED if answer.nack else form.CONFIRMED
                for part in answer.settled:
                    book.add_all(event, own, [tag - 1 for tag in part.tags])
        book.close()

    def consume(
        self,
        queue: str,
        count: int,
        then: Callable[[BlockingChannel, Delivered], None] | None = None,
        no_ack: bool = False,
    ) -> None:
        """Each message is entered, and then settled or not; they are those of one publisher."""
        with self.broker.connection() as connection:
            channel = connection.channel()
            channel.call(limit_prefetch(count))
            channel.call(consume(queue, no_ack=no_ack))
            for delivered in islice(channel.messages(SECONDS_MAX), count):
                self.received(queue, delivered)
                if then is not None:
                    then(channel, delivered)

    def received(self, queue: str, delivered: Delivered) -> None:
        who, number = bytes(delivered.body).decode().split()
        name = self._book.name("/", queue, who)
        self._book.add(form.RECEIVED, name, int(number), 1, int(delivered.redelivered))

    def ask(self, method: str, path: str, body: dict[str, object] | None = None) -> None:
        host = urlsplit(self.broker.uri).netloc
        connection = http.client.HTTPConnection(host, timeout=SECONDS_MAX)
        headers = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q=", "Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body or {}), headers)
        answer = connection.getresponse()
        told = answer.read()
        connection.close()
        assert answer.status < 300, told

    def close(self) -> None:
        self._book.close()


def acked(channel: BlockingChannel, delivered: Delivered) -> None:
    channel.ack(delivered)


def rejected(channel: BlockingChannel, delivered: Delivered) -> None:
    channel.reject(delivered, requeue=False)


def given_back(channel: BlockingChannel, delivered: Delivered) -> None:
    channel.reject(delivered, requeue=True)


def in_transactions(crew: Crew) -> None:
    """Acknowledgements that are rolled back, and then others that are committed."""
    with crew.broker.connection() as connection:
        channel = connection.channel()
        channel.call(select_transactions())
        for is_last in (False, True):
            for _ in range(50):
                delivered = channel.get("transactions")
                assert delivered is not None
                if is_last:
                    crew.received("transactions", delivered)
                channel.ack(delivered)
            if is_last:
                channel.call(commit())
            else:
                channel.call(rollback())
                channel.close()
                channel = connection.channel()
                channel.call(select_transactions())


def until_gone(crew: Crew, queue: str) -> None:
    ends = time.monotonic() + SECONDS_MAX
    with crew.broker.connection() as connection:
        channel = connection.channel()
        while channel.call(declare_queue(queue, passive=True)).message_count:
            assert time.monotonic() < ends
            time.sleep(0.05)


def before_the_crash(crew: Crew) -> None:
    crew.declare("dead letters")
    crew.declare("acknowledged")
    crew.publish("acknowledged")
    crew.consume("acknowledged", 50, acked)
    crew.declare("no ack")
    crew.publish("no ack")
    crew.consume("no ack", 50, no_ack=True)
    crew.declare("max length", x_max_length=5)
    crew.publish("max length")
    crew.declare("refused", x_max_length=5, x_overflow="reject-publish")
    crew.publish("refused")
    crew.declare("expired", x_message_ttl=1)
    crew.publish("expired")
    until_gone(crew, "expired")
    crew.declare("purged")
    crew.publish("purged")
    with crew.broker.connection() as connection:
        connection.channel().call(purge_queue("purged"))
    crew.declare("deleted")
    crew.publish("deleted")
    with crew.broker.connection() as connection:
        connection.channel().call(delete_queue("deleted"))
    crew.declare("rejected", x_dead_letter_exchange="", x_dead_letter_routing_key="dead letters")
    crew.publish("rejected")
    crew.consume("rejected", 50, rejected)
    crew.declare("delivery limit", x_queue_type="quorum", x_delivery_limit=1)
    crew.publish("delivery limit")
    crew.consume("delivery limit", 100, given_back)
    crew.declare("given back")
    crew.publish("given back")
    crew.consume("given back", 50, given_back)
    crew.declare("transactions")
    crew.publish("transactions")
    in_transactions(crew)
    crew.declare("leased")
    crew.publish("leased")
    for number in (1, 2):
        wanted: dict[str, object] = {"owner": "job", "number": number, "messages": 20}
        crew.ask("POST", "/api/leases/%2F/leased", wanted)
    crew.declare("stream", x_queue_type="stream")
    crew.publish("stream")
    crew.declare("transient messages")
    crew.publish("transient messages", delivery_mode=1)
    crew.declare("not durable", durable=False)
    crew.publish("not durable")
    crew.declare("priorities", x_max_priority=5)
    crew.publish("priorities", priority=3)
    crew.declare("ready")
    crew.publish("ready")


@pytest.mark.timeout(4 * SECONDS_MAX)
def test_no_ending_of_a_message_in_a_real_broker_is_called_a_loss(
    spark: SparkSession, tmp_path: Path
) -> None:
    broker = BrokerProcess(tmp_path / "server", "--ledger")
    crew = Crew(broker, tmp_path / "clients")
    try:
        before_the_crash(crew)
        crew.declare("unacked at the crash")
        crew.publish("unacked at the crash")
        holder = broker.connection()
        channel = holder.channel()
        channel.call(consume("unacked at the crash"))
        assert len(list(islice(channel.messages(SECONDS_MAX), 50))) == 50
        broker.kill()
        hang_up(holder)
        broker.start()
        crew.consume("unacked at the crash", 50, acked)
        crew.consume("priorities", 50, acked)
        crew.consume("dead letters", 50, acked)
        crew.ask("DELETE", "/api/leases/%2F/leased/job/1")
    finally:
        broker.close()
        crew.close()
    ledgers = open_ledgers(spark, [tmp_path / "server", tmp_path / "clients"])
    found = audit(ledgers, sampled_blocks=ONE_BLOCK)
    queues = by_name(found)
    told = {
        name: (queue.confirmed, queue.received, queue.missing_confirmed, queue.lost)
        for name, queue in queues.items()
    }
    assert told == {
        "acknowledged": (50, 50, 0, 0),
        "dead letters": (0, 50, 0, 0),
        "deleted": (50, 0, 50, 0),
        "delivery limit": (50, 100, 0, 0),
        "expired": (50, 0, 50, 0),
        "given back": (50, 50, 0, 0),
        "leased": (50, 0, 50, 0),
        "max length": (50, 0, 50, 0),
        "no ack": (50, 50, 0, 0),
        "not durable": (50, 0, 50, 0),
        "priorities": (50, 50, 0, 0),
        "purged": (50, 0, 50, 0),
        "ready": (50, 0, 50, 0),
        "refused": (5, 0, 5, 0),
        "rejected": (50, 50, 0, 0),
        "stream": (50, 0, 50, 0),
        "transactions": (50, 50, 0, 0),
        "transient messages": (50, 0, 50, 0),
        "unacked at the crash": (50, 50, 0, 0),
    }
    assert queues["leased"].leased == 40
    assert queues["dead letters"].received_by_detour == 50
    assert (found.total("phantom"), found.total("missing_after_restart")) == (0, 0)
    assert [o.finding for o in found.offences if o.finding != "duplicate_flagged"] == []
