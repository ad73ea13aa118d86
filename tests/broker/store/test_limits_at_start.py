"""A start keeps length limits as the running queue would."""

from tests.broker.store.doubles import Broker


def test_a_queue_that_refuses_publishes_keeps_what_was_out_with_consumers() -> None:
    broker = Broker()
    broker.declare("q", arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    broker.put("q", b"1", b"2")
    broker.get("q")
    broker.get("q")
    broker.put("q", b"3", b"4")
    broker.tick()
    again = broker.restarted()
    assert again.drain("q") == [b"1", b"2", b"3", b"4"]


def test_a_queue_that_drops_its_head_does_so_at_the_start() -> None:
    broker = Broker()
    broker.declare("q", arguments={"x-max-length": 2})
    broker.put("q", b"1", b"2")
    broker.get("q")
    broker.get("q")
    broker.put("q", b"3", b"4")
    broker.tick()
    again = broker.restarted()
    assert again.drain("q") == [b"3", b"4"]
