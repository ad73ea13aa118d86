"""What a stream knows of publishers is noted, so that a start reads little of the log."""

from penstock.broker.streams.notes import UNNOTED_MAX
from penstock.broker.streams.opening import open_streams
from penstock.broker.topology import DeclareQueue
from tests.broker.streams.doubles import Host, message
from tests.storage.stream_writing import copy_of

DECLARED = DeclareQueue("s", durable=True, arguments={"x-queue-type": "stream"})


def publish(host: Host, publisher: str, sequence: int) -> None:
    sent = message(b"", x_publisher_id=publisher, x_publisher_sequence=sequence)
    host.stream().enqueue(sent, host.now)


def restarted(host: Host) -> Host:
    again = Host(copy_of(host.disk))
    again.vhost.shared.decides = False
    again.vhost.apply(DECLARED, 0)
    open_streams(again.store, again.vhost.queues.values(), 0)
    again.vhost.shared.decides = True
    return again


def test_a_start_reads_no_more_messages_of_publishers_than_may_be_without_a_note() -> None:
    host = Host()
    host.vhost.apply(DECLARED, 0)
    for sequence in range(3 * UNNOTED_MAX + 100):
        publish(host, f"p{sequence % 3}", sequence)
        if sequence % 64 == 0:
            host.tick()
    host.tick()
    again = restarted(host)
    assert again.decoder.decoded < UNNOTED_MAX
    known = again.stream().files.publishers.sequences
    assert known == host.stream().files.publishers.sequences
    assert list(known) == list(host.stream().files.publishers.sequences)


def test_what_came_behind_the_last_note_is_noted_by_the_next_one() -> None:
    """Over a restart in between."""
    host = Host()
    host.vhost.apply(DECLARED, 0)
    for sequence in range(UNNOTED_MAX - 10):
        publish(host, "early", sequence)
    host.tick()
    host = restarted(host)
    for sequence in range(20):
        publish(host, "late", sequence)
    host.tick()
    again = restarted(host)
    assert again.decoder.decoded == 0
    expected = {"early": UNNOTED_MAX - 11, "late": 19}
    assert again.stream().files.publishers.sequences == expected


def test_a_stream_without_publishers_has_no_notes() -> None:
    host = Host()
    host.vhost.apply(DECLARED, 0)
    for _ in range(10):
        host.stream().enqueue(message(b"plain"), 0)
    host.tick()
    assert [name for name in restarted(host).disk.names() if name.endswith(".pub")] == []
