from penstock.broker.names import described, server_named, without_line_breaks
from tests.broker.doubles import CountingEntropy


def test_server_names_look_like_rabbitmqs_and_differ() -> None:
    entropy = CountingEntropy()
    one, other = server_named(entropy), server_named(entropy)
    assert one != other
    assert one.startswith("amq.gen-")
    assert len(one) == len("amq.gen-W_zG3KXI05PqkoOR6LGQJg")


def test_line_breaks_are_dropped() -> None:
    assert without_line_breaks("a\r\nb\n") == "ab"


def test_an_object_is_described_with_its_vhost() -> None:
    assert described("queue", "q", "/") == "queue 'q' in vhost '/'"
