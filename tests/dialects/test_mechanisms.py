import pytest

from penstock.dialects.amqp091.login import AmqPlain, mechanism_of
from penstock.dialects.amqp10 import login as login10
from penstock.dialects.mechanisms import Anonymous, Mechanism, Plain
from penstock.formats.octets import Malformed
from penstock.wire.amqp091.amqplain import amqplain_response
from penstock.wire.amqp091.errors import ConnectionFault
from penstock.wire.sasl import plain_response


@pytest.mark.parametrize(
    ("mechanism", "response", "claimed"),
    [
        (Plain(), plain_response("ann", "ä"), ("ann", "ä".encode())),
        (AmqPlain(), amqplain_response("ann", "ä"), ("ann", "ä".encode())),
        (Anonymous(), b"trace of no meaning", ("guest", b"guest")),
    ],
)
def test_a_mechanism_says_who_a_response_claims_to_be(
    mechanism: Mechanism, response: bytes, claimed: tuple[str, bytes]
) -> None:
    claim = mechanism.step(response)
    assert (claim.user, claim.password) == claimed


@pytest.mark.parametrize("mechanism", [Plain(), AmqPlain()])
def test_a_response_that_claims_nothing_is_malformed(mechanism: Mechanism) -> None:
    with pytest.raises(Malformed):
        mechanism.step(b"nonsense")


def test_a_client_of_amqp091_that_chooses_what_is_not_offered_hears_what_is() -> None:
    assert [mechanism_of(name).name for name in ("PLAIN", "AMQPLAIN")] == ["PLAIN", "AMQPLAIN"]
    with pytest.raises(ConnectionFault, match="'EXTERNAL', use one of AMQPLAIN PLAIN"):
        mechanism_of("EXTERNAL")


def test_a_client_of_amqp10_is_anonymous_only_where_that_is_allowed() -> None:
    assert login10.mechanism_of("ANONYMOUS", False) is None
    assert login10.mechanism_of("AMQPLAIN", True) is None
    assert isinstance(login10.mechanism_of("ANONYMOUS", True), Anonymous)
    assert isinstance(login10.mechanism_of("PLAIN", False), Plain)
