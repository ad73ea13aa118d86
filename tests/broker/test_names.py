import pytest

from penstock.broker.errors import PreconditionFailed
from penstock.broker.names import (
    check_length,
    check_operators_name,
    described,
    server_named,
    without_line_breaks,
)
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


@pytest.mark.parametrize("name", ["", "n" * 256, "\u00e9" * 128])
def test_what_an_operator_names_has_a_length(name: str) -> None:
    with pytest.raises(PreconditionFailed, match="a vhost name must have 1 to 255 bytes"):
        check_operators_name("a vhost name", name)
    check_operators_name("a vhost name", "n" * 255)


def test_half_a_character_is_no_name() -> None:
    with pytest.raises(PreconditionFailed, match="a vhost name must be a valid Unicode string"):
        check_operators_name("a vhost name", "\ud800")
    with pytest.raises(PreconditionFailed, match="the queue name must be a valid Unicode string"):
        check_length("queue", "\ud800")
