import pytest

from penstock.dialects.mechanisms import (
    AmqPlain,
    Anonymous,
    Claim,
    External,
    Mechanism,
    MechanismVerdict,
    Plain,
)
from penstock.formats.octets import Malformed
from penstock.wire.amqp091.amqplain import amqplain_response
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
    assert isinstance(claim, Claim)
    assert (claim.user, claim.password) == claimed


@pytest.mark.parametrize("mechanism", [Plain(), AmqPlain()])
def test_a_response_that_claims_nothing_is_malformed(mechanism: Mechanism) -> None:
    with pytest.raises(Malformed):
        mechanism.step(b"nonsense")


@pytest.mark.parametrize(
    ("response", "reason"),
    [(b"", ""), (b"ann", ""), (b"bob", "the certificate does not name 'bob'")],
)
def test_external_is_who_the_certificate_names(response: bytes, reason: str) -> None:
    verdict = External("ann").step(response)
    assert isinstance(verdict, MechanismVerdict)
    assert (verdict.user, verdict.reason) == ("ann", reason)
