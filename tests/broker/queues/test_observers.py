"""The four moments of a message, as observers of a queue see them."""

from penstock.broker.entry import QueueEntry
from penstock.broker.observers import QueueObserver
from tests.broker.queues.doubles import RecordingConsumer, dispatch, make_queue, put


class Diary(QueueObserver):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def enqueued(self, entry: QueueEntry) -> None:
        self.lines.append(f"enqueued {entry.message.body.decode()}")

    def delivered(self, entry: QueueEntry) -> None:
        self.lines.append(f"delivered {entry.message.body.decode()}")

    def acknowledged(self, entry: QueueEntry) -> None:
        self.lines.append(f"acknowledged {entry.message.body.decode()}")

    def dequeued(self, entry: QueueEntry) -> None:
        self.lines.append(f"dequeued {entry.message.body.decode()}")


def test_a_message_is_enqueued_delivered_acknowledged_and_dequeued() -> None:
    queue, owner = make_queue()
    diary = Diary()
    queue.observers.append(diary)
    consumer = RecordingConsumer(1)
    queue.add_consumer(consumer)
    put(queue, b"a", b"b")
    dispatch(owner)
    queue.acknowledge(consumer.taken[0])
    queue.purge(0)
    assert diary.lines == [
        "enqueued a",
        "enqueued b",
        "delivered a",
        "acknowledged a",
        "dequeued a",
        "dequeued b",
    ]


def test_a_message_taken_without_acknowledgement_is_dequeued_at_once() -> None:
    queue, owner = make_queue()
    diary = Diary()
    queue.observers.append(diary)
    queue.add_consumer(RecordingConsumer(automatic=True))
    put(queue, b"a")
    dispatch(owner)
    assert diary.lines == ["enqueued a", "dequeued a"]


def test_a_rejected_message_is_dequeued_without_being_acknowledged() -> None:
    queue, owner = make_queue()
    diary = Diary()
    queue.observers.append(diary)
    consumer = RecordingConsumer()
    queue.add_consumer(consumer)
    put(queue, b"a")
    dispatch(owner)
    queue.reject(consumer.taken[0], 0)
    assert diary.lines == ["enqueued a", "delivered a", "dequeued a"]
