import pytest

from penstock.broker.exchanges.delayed import DELAY_MS_MAX, DelayedExchange
from penstock.broker.exchanges.kinds import make_exchange
from tests.broker.doubles import PlainProperties, bind, matched


def delayed(kind: str) -> DelayedExchange:
    exchange = make_exchange(
        "e", "x-delayed-message", False, False, False, {"x-delayed-type": kind}
    )
    assert isinstance(exchange, DelayedExchange)
    return exchange


@pytest.mark.parametrize(
    ("header", "delay"),
    [
        (5000, 5000),
        (0, 0),
        (-5000, 0),
        (DELAY_MS_MAX, DELAY_MS_MAX),
        (DELAY_MS_MAX + 1, 0),
        ("5000", 0),
        (True, 0),
    ],
)
def test_the_delay_stands_in_a_header(header: object, delay: int) -> None:
    assert delayed("direct").delay_of(PlainProperties({"x-delay": header})) == delay


def test_without_the_header_there_is_no_delay() -> None:
    assert delayed("direct").delay_of(PlainProperties()) == 0


def test_it_selects_as_its_inner_type() -> None:
    exchange = delayed("topic")
    binding = bind(exchange, "q", "a.*")
    assert matched(exchange, "a.b") == ["q"]
    assert matched(exchange, "b") == []
    exchange.remove(binding)
    assert matched(exchange, "a.b") == []
