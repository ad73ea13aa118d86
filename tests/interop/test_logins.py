"""Logins of real clients: SCRAM-SHA-256 by Cyrus SASL in both protocols, EXTERNAL with certificates."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import quote

import pika
import pika.credentials
import pika.exceptions
import pytest
from pika import spec

from penstock import Broker
from penstock.client.blocking import connect
from penstock.client.errors import LoginRefused
from penstock.wire.amqp10.performatives_generated import (
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)
from penstock.wire.amqp10.values import Composite
from tests.behaviour.raw import RawConnection
from tests.interop.cyrus import CyrusClient, CyrusError
from tests.server.wire_client import WireClient
from tests.support.certificates import Certificate, signed_by
from tests.support.identities import Identities

proton = pytest.importorskip("proton", reason="python-qpid-proton is not installed")

from proton import ConnectionException, SSLDomain  # noqa: E402 - when it is there
from proton.utils import BlockingConnection  # noqa: E402

SCRAM = "SCRAM-SHA-256"
HOST = "localhost"
PATIENCE_SECONDS = 60.0
PASSWORD = "pässword, with = and \N{WATER WAVE}"

pytestmark = [
    pytest.mark.timeout(180, func_only=True),
    # Proton's Python binding leaves its own sockets to the collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def broker(identities: Identities) -> Iterator[Broker]:
    with Broker(tls=identities.mutual()) as running:
        for user in ("meter", "ann,b=c"):
            running.add_user(user, PASSWORD)
            running.set_permissions(user, "/")
        yield running


# SCRAM by Cyrus.


class CyrusWireClient(WireClient):
    """AMQP 1.0 whose SASL layer is Cyrus's. Held by a test."""

    def __init__(self, port: int, cyrus: CyrusClient) -> None:
        super().__init__(port, "cyrus", PATIENCE_SECONDS)
        self.cyrus = cyrus

    def sasl_received(self, frame: Composite) -> None:
        if isinstance(frame, SaslMechanisms):
            assert SCRAM in (frame.sasl_server_mechanisms or ())
            self.wire.send_sasl(SaslInit(SCRAM, self.cyrus.start(SCRAM), HOST))
        elif isinstance(frame, SaslChallenge):
            self.wire.send_sasl(SaslResponse(self.cyrus.step(frame.challenge)))
        elif isinstance(frame, SaslOutcome):
            if frame.code == 0:
                self.cyrus.step(frame.additional_data or b"")
            self._is_logged_in = True

    def log_in(self) -> None:
        self.wire.start(True)
        self._wait(lambda: self._is_logged_in)


@pytest.mark.parametrize("user", ["meter", "ann,b=c"])
def test_cyrus_logs_in_by_scram_over_amqp_1_0_and_believes_the_broker(
    broker: Broker, user: str
) -> None:
    with (
        closing(CyrusClient(user, PASSWORD)) as cyrus,
        CyrusWireClient(broker.port, cyrus) as client,
    ):
        assert cyrus.is_finished
        assert client.session.remote_channel >= 0


def test_cyrus_with_a_wrong_password_is_refused_over_amqp_1_0(broker: Broker) -> None:
    with closing(CyrusClient("meter", "wrong")) as cyrus:
        client = CyrusWireClient(broker.port, cyrus)
        with pytest.raises(AssertionError, match="SASL outcome 1"):
            client.log_in()
        assert not cyrus.is_finished
        client._raw.close()


def scram_over_091(raw: RawConnection, cyrus: CyrusClient) -> None:
    """Until the broker has proved itself, or raises what it says instead."""
    raw.login(cyrus.start(SCRAM).decode(), SCRAM)
    for _ in range(2):
        told = raw.read_frame().method
        if isinstance(told, spec.Connection.Close):
            raise pika.exceptions.ConnectionClosedByBroker(told.reply_code, told.reply_text)
        assert isinstance(told, spec.Connection.Secure)
        answer = cyrus.step(octets(told.challenge))
        raw.send_method(0, spec.Connection.SecureOk(answer.decode()))


def octets(challenge: str | bytes) -> bytes:
    return challenge.encode() if isinstance(challenge, str) else challenge


def test_cyrus_logs_in_by_scram_over_amqp_0_9_1_and_believes_the_broker(broker: Broker) -> None:
    with (
        closing(CyrusClient("meter", PASSWORD)) as cyrus,
        RawConnection(broker.host, broker.port) as raw,
    ):
        scram_over_091(raw, cyrus)
        assert cyrus.is_finished
        raw.expect(spec.Connection.Tune)


def test_cyrus_with_a_wrong_password_is_refused_over_amqp_0_9_1(broker: Broker) -> None:
    with (
        closing(CyrusClient("ann,b=c", "wrong")) as cyrus,
        RawConnection(broker.host, broker.port) as raw,
        pytest.raises(pika.exceptions.ConnectionClosedByBroker) as refused,
    ):
        scram_over_091(raw, cyrus)
    assert refused.value.reply_code == 403


def test_cyrus_does_not_believe_a_broker_whose_proof_is_changed(broker: Broker) -> None:
    """So the tests above would have failed without a good proof."""
    with (
        closing(CyrusClient("meter", PASSWORD)) as cyrus,
        RawConnection(broker.host, broker.port) as raw,
    ):
        raw.login(cyrus.start(SCRAM).decode(), SCRAM)
        challenge = raw.expect(spec.Connection.Secure)
        assert isinstance(challenge, spec.Connection.Secure)
        final = cyrus.step(octets(challenge.challenge))
        raw.send_method(0, spec.Connection.SecureOk(final.decode()))
        proof = raw.expect(spec.Connection.Secure)
        assert isinstance(proof, spec.Connection.Secure)
        assert octets(proof.challenge).startswith(b"v=")
        with pytest.raises(CyrusError):
            cyrus.step(b"v=" + b64encode(bytes(32)))


# EXTERNAL.


def pika_external(broker: Broker, identities: Identities, shown: Certificate) -> None:
    parameters = pika.ConnectionParameters(
        HOST,
        broker.tls_port,
        ssl_options=pika.SSLOptions(identities.context(shown), HOST),
        credentials=pika.credentials.ExternalCredentials(),
    )
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        # Only who is logged in may be named in a message.
        properties = pika.BasicProperties(user_id="meter")
        channel.confirm_delivery()
        channel.basic_publish("", queue, b"it is me", properties, mandatory=True)


def test_pika_logs_in_by_its_certificate(broker: Broker, identities: Identities) -> None:
    pika_external(broker, identities, identities.client)


@pytest.fixture(scope="module")
def stranger(identities: Identities) -> Certificate:
    """Signed by our authority, and no user's."""
    folder = identities.ours.file.parent
    return signed_by(identities.ours, folder, "stranger")


def test_pika_with_a_certificate_that_names_no_user_is_refused(
    broker: Broker, identities: Identities, stranger: Certificate
) -> None:
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika_external(broker, identities, stranger)


def proton_external(broker: Broker, identities: Identities, shown: Certificate) -> None:
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(identities.ours.file))
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
    domain.set_credentials(str(shown.file), str(shown.key), None)
    connection = BlockingConnection(
        f"amqps://{HOST}:{broker.tls_port}",
        timeout=PATIENCE_SECONDS,
        ssl_domain=domain,
        allowed_mechs="EXTERNAL",
    )
    sender = connection.create_sender("proton-external")
    sender.send(proton.Message(body="it is me", user_id=b"meter"))
    connection.close()


def test_proton_logs_in_by_its_certificate(broker: Broker, identities: Identities) -> None:
    proton_external(broker, identities, identities.client)


def test_proton_with_a_certificate_that_names_no_user_is_refused(
    broker: Broker, identities: Identities, stranger: Certificate
) -> None:
    with pytest.raises(ConnectionException):
        proton_external(broker, identities, stranger)


def address_of(broker: Broker, identities: Identities, shown: Certificate, mechanism: str) -> str:
    files = {"cacertfile": identities.ours.file, "certfile": shown.file, "keyfile": shown.key}
    options = "&".join(f"{name}={quote(str(file))}" for name, file in files.items())
    login = "" if mechanism == "external" else f"meter:{quote(PASSWORD)}@"
    return f"amqps://{login}{HOST}:{broker.tls_port}/%2F?auth_mechanism={mechanism}&{options}"


@pytest.mark.parametrize("mechanism", ["external", "plain", "scram-sha-256", "amqplain"])
def test_our_client_logs_in_by_each_mechanism_over_tls(
    broker: Broker, identities: Identities, mechanism: str
) -> None:
    with connect(address_of(broker, identities, identities.client, mechanism)) as connection:
        assert connection.channel() is not None


def test_our_client_with_a_certificate_that_names_no_user_is_refused(
    broker: Broker, identities: Identities, stranger: Certificate
) -> None:
    with pytest.raises(LoginRefused):
        connect(address_of(broker, identities, stranger, "external"))


def test_external_is_not_offered_without_tls(broker: Broker) -> None:
    with RawConnection(broker.host, broker.port) as raw:
        assert b"EXTERNAL" not in octets(raw.start().mechanisms)
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(
            pika.ConnectionParameters(
                HOST, broker.port, credentials=pika.credentials.ExternalCredentials()
            )
        )
