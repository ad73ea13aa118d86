"""Every door of a broker: which logins it offers, what it refuses, and what it says of it in the log."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from pika import spec

from penstock import Broker
from penstock.broker.access.login_delay import DELAY_MS_MAX, delay_ms
from penstock.wire.amqp10.errors import ConnectionFault
from penstock.wire.amqp10.performatives_generated import (
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)
from penstock.wire.amqp10.values import Composite
from penstock.wire.scram import ScramClient
from tests.behaviour.raw import CLIENT_PROPERTIES, RawConnection, plain
from tests.server.http.asking import Pages, serving
from tests.server.http.doubles import WebSocketRelay
from tests.server.opened import pika_connection
from tests.server.raw_client import wait_for
from tests.server.wire_client import WireClient
from tests.support.identities import Identities
from tests.support.served import END_SECONDS, launch, ready_facts

SCRAM = "SCRAM-SHA-256"
PATIENCE_SECONDS = 60.0
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
PLAIN_HEADER = b"AMQP\x00\x01\x00\x00"
GUESSES = 30
# Far below what the guesses wait for, and far above what one login takes on a busy machine.
LOGIN_SECONDS = 8.0
# A name of a loopback address that does not look like one, so it counts as public.
PUBLIC_NAME = "127.1"


class Proof:
    """The two messages of one SCRAM login. Held by a test."""

    def __init__(self, user: str, password: str, nonce: str = "nonce") -> None:
        self.client = ScramClient(user, password, nonce)
        self.first = self.client.start()
        self.final = b""

    def send_on(self, raw: RawConnection) -> None:
        """Until the proof is on its way; its answer is still to be read."""
        raw.login(self.first.decode(), SCRAM)
        challenge = raw.expect(spec.Connection.Secure)
        assert isinstance(challenge, spec.Connection.Secure)
        self.final = self.final or self.client.answer(octets(challenge.challenge))
        raw.send_method(0, spec.Connection.SecureOk(self.final.decode()))


def octets(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def refusal(raw: RawConnection) -> tuple[int, str]:
    closed = raw.expect(spec.Connection.Close)
    assert isinstance(closed, spec.Connection.Close)
    return closed.reply_code, closed.reply_text


@contextlib.contextmanager
def logging_broker(folder: Path, configuration: str = "") -> Iterator[tuple[dict[str, str], Path]]:
    """A served broker; what its ready line says, and its log."""
    file, log = folder / "penstock.toml", folder / "log"
    file.write_text(configuration, "utf-8")
    options = ["--config", str(file), "--memory", "--port=0", "--http-port=0"]
    with log.open("w") as errors:
        process = launch(*options, errors=errors)
        try:
            yield ready_facts(process), log
        finally:
            process.terminate()
            process.communicate(timeout=END_SECONDS)


def port_of(facts: dict[str, str], name: str = "amqp") -> int:
    return int(facts[name].rpartition(":")[2])


def is_logged(log: Path, *words: str) -> bool:
    return any(all(word in line for word in words) for line in log.read_text().splitlines())


# Mechanisms of each listener.


def test_each_listener_offers_its_own_mechanisms(identities: Identities, tmp_path: Path) -> None:
    configuration = f"""
[listen]
mechanisms = ["SCRAM-SHA-256"]
[tls]
port = 0
certificate = "{identities.server.file}"
key = "{identities.server.key}"
client_ca = "{identities.ours.file}"
mechanisms = ["EXTERNAL", "PLAIN"]
[http]
mechanisms = ["AMQPLAIN"]
"""
    with logging_broker(tmp_path, configuration) as (facts, log):
        with RawConnection("127.0.0.1", port_of(facts)) as raw:
            assert octets(raw.start().mechanisms) == SCRAM.encode()
        with RawConnection("127.0.0.1", port_of(facts)) as raw:
            Proof("guest", "guest").send_on(raw)
            raw.expect(spec.Connection.Secure)
        with RawConnection("127.0.0.1", port_of(facts)) as raw:
            raw.login(plain("guest", "guest"))
            code, text = refusal(raw)
            assert code == 530
            assert "'PLAIN', use one of SCRAM-SHA-256" in text
        wait_for(lambda: is_logged(log, "unsupported authentication mechanism 'PLAIN'"), 30)
        with secured(port_of(facts, "amqps"), identities) as raw:
            assert octets(raw.start().mechanisms) == b"EXTERNAL PLAIN"
        relay = WebSocketRelay(f"ws://127.0.0.1:{port_of(facts, 'http')}/ws")
        with RawConnection("127.0.0.1", relay.port) as raw:
            assert octets(raw.start().mechanisms) == b"AMQPLAIN"
            response = plain("guest", "guest")
            properties = CLIENT_PROPERTIES
            raw.send_method(0, spec.Connection.StartOk(properties, "PLAIN", response, "en_US"))
            assert refusal(raw)[0] == 530
        relay.close()


def secured(port: int, identities: Identities) -> RawConnection:
    raw = RawConnection("localhost", port)
    context: ssl.SSLContext = identities.context(identities.client)
    raw.socket = context.wrap_socket(raw.socket, server_hostname="localhost")
    return raw


@pytest.mark.parametrize("mechanism", ["GSSAPI", "", "plain", "EXTERNAL", "x" * 60])
def test_a_mechanism_that_is_not_offered_is_refused(mechanism: str) -> None:
    with Broker() as broker, RawConnection(broker.host, broker.port) as raw:
        raw.login(plain("guest", "guest"), mechanism)
        code, text = refusal(raw)
        assert code == 530
        assert "use one of PLAIN AMQPLAIN SCRAM-SHA-256" in text


# Anonymous clients.


def test_anonymous_clients_are_refused_where_others_can_come() -> None:
    with Broker(host=PUBLIC_NAME) as broker:
        with RawConnection("127.0.0.1", broker.port) as raw:
            assert b"ANONYMOUS" not in octets(raw.start().mechanisms)
            response = spec.Connection.StartOk(CLIENT_PROPERTIES, "ANONYMOUS", "", "en_US")
            raw.send_method(0, response)
            assert refusal(raw)[0] == 530
        with socket.create_connection(("127.0.0.1", broker.port), PATIENCE_SECONDS) as client:
            client.sendall(PLAIN_HEADER)
            assert client.recv(8, socket.MSG_WAITALL) == SASL_HEADER
        with RawConnection("127.0.0.1", broker.port) as raw:
            raw.open("guest", "guest", "/")


def test_anonymous_clients_are_let_in_on_loopback() -> None:
    """So the test above would fail if the name made no difference."""
    with Broker() as broker, RawConnection(broker.host, broker.port) as raw:
        raw.login("", "ANONYMOUS")
        raw.expect(spec.Connection.Tune)


# SCRAM under attack.


def test_a_recorded_scram_login_is_refused_and_logged(tmp_path: Path) -> None:
    with logging_broker(tmp_path) as (facts, log):
        proof = Proof("guest", "guest")
        with RawConnection("127.0.0.1", port_of(facts)) as raw:
            proof.send_on(raw)
            raw.expect(spec.Connection.Secure)
        # The same octets again, whatever the broker says.
        with RawConnection("127.0.0.1", port_of(facts)) as raw:
            proof.send_on(raw)
            assert refusal(raw)[0] == 403
        wait_for(lambda: is_logged(log, "login refused user=guest", "wrong password"), 30)
        # And the proof without the first message.
        with RawConnection("127.0.0.1", port_of(facts)) as raw:
            raw.login(proof.final.decode(), SCRAM)
            assert refusal(raw)[0] == 403
        text = log.read_text()
        assert proof.final.decode() not in text
        assert proof.final.decode().rpartition("p=")[2] not in text
        assert "Traceback" not in text


class SayingClient(WireClient):
    """AMQP 1.0 with a SASL layer that says what a test wants it to say. Held by the test."""

    def __init__(self, port: int, init: SaslInit, response: bytes = b"") -> None:
        super().__init__(port, "saying", PATIENCE_SECONDS)
        self._init = init
        self._response = response
        self.challenge = b""
        self.code = -1

    def sasl_received(self, frame: Composite) -> None:
        if isinstance(frame, SaslMechanisms):
            self.wire.send_sasl(self._init)
        elif isinstance(frame, SaslChallenge):
            self.challenge = frame.challenge
            self.wire.send_sasl(SaslResponse(self._response))
        elif isinstance(frame, SaslOutcome):
            self.code = frame.code

    def connection_ended(self, fault: ConnectionFault | None) -> None:
        """As it must: see the code."""

    def outcome(self) -> int:
        try:
            self.wire.start(True)
            self._wait(lambda: self.code >= 0)
        finally:
            self._raw.close()
        return self.code


def test_amqp_1_0_refuses_and_logs_the_same(tmp_path: Path) -> None:
    with logging_broker(tmp_path) as (facts, log):
        port = port_of(facts)
        assert SayingClient(port, SaslInit("PLAIN", b"\0guest\0guest")).outcome() == 0
        assert SayingClient(port, SaslInit("GSSAPI", b"")).outcome() == 1
        wait_for(lambda: is_logged(log, "login refused", "mechanism GSSAPI is not offered"), 30)
        assert SayingClient(port, SaslInit("EXTERNAL", b"guest")).outcome() == 1
        wait_for(lambda: is_logged(log, "login refused", "mechanism EXTERNAL is not offered"), 30)
        # A proof for another challenge.
        proof = Proof("guest", "guest")
        with RawConnection("127.0.0.1", port) as raw:
            proof.send_on(raw)
            raw.expect(spec.Connection.Secure)
        recorded = SayingClient(port, SaslInit(SCRAM, proof.first), proof.final)
        assert recorded.outcome() == 1
        assert recorded.challenge
        wait_for(lambda: is_logged(log, "login refused user=guest", "wrong password"), 30)


def checked_at_most(seconds: float) -> int:
    """Guesses of one user from one host that can have been checked by then, with those that are free
    once in a second.
    """
    count, passed = 1, 0.0
    while passed <= seconds:
        passed += delay_ms(count) / 1000
        count += 1
    return count + int(seconds) + 1


def ending(raw: RawConnection) -> str:
    """How the broker answers a proof: a reply code, or that it hung up."""
    try:
        method = raw.read_frame(PATIENCE_SECONDS).method
    except AssertionError:
        return "hung up"
    return str(getattr(method, "reply_code", type(method).__name__))


def test_guesses_by_scram_are_bounded_in_rate_and_lock_out_nobody_else() -> None:
    with Broker() as broker:
        for user in ("u", "other"):
            broker.add_user(user, "secret")
            broker.set_permissions(user, "/")
        began = time.monotonic()
        guessers = [RawConnection(broker.host, broker.port) for _ in range(GUESSES)]
        with ThreadPoolExecutor(GUESSES) as threads:
            list(
                threads.map(
                    lambda pair: Proof("u", f"guess {pair[0]}").send_on(pair[1]),
                    enumerate(guessers),
                )
            )
            asked = time.monotonic()
            with RawConnection(broker.host, broker.port) as raw:
                raw.open("other", "secret", "/")
            elsewhere = RawConnection(broker.host, broker.port)
            elsewhere.socket.close()
            elsewhere.socket = socket.create_connection(
                (broker.host, broker.port), PATIENCE_SECONDS, source_address=("127.0.0.2", 0)
            )
            with elsewhere:
                Proof("u", "secret").send_on(elsewhere)
                elsewhere.expect(spec.Connection.Secure)
            assert time.monotonic() - asked < LOGIN_SECONDS
            endings = Counter(threads.map(ending, guessers))
        passed = time.monotonic() - began
        assert endings["403"] <= checked_at_most(passed)
        # The others hear that they were not looked at, before the handshake's time is over.
        assert set(endings) == {"403", "506"}
        assert endings.total() == GUESSES
        assert passed > DELAY_MS_MAX / 1000 / 2
        for raw in guessers:
            raw.socket.close()
        wait_for(lambda: broker.connection_count == 0, 60)


def test_guesses_by_scram_over_amqp_1_0_meet_the_delay_too() -> None:
    with Broker() as broker:
        proof = Proof("guest", "guest")
        with RawConnection(broker.host, broker.port) as raw:
            proof.send_on(raw)
            raw.expect(spec.Connection.Secure)
        # Proofs for another challenge are as wrong as guesses.
        init = SaslInit(SCRAM, proof.first)
        began = time.monotonic()
        with ThreadPoolExecutor(GUESSES) as threads:
            clients = [SayingClient(broker.port, init, proof.final) for _ in range(GUESSES)]
            codes = Counter(threads.map(SayingClient.outcome, clients))
        # 4 is a failure for now: nobody has looked.
        assert set(codes) == {1, 4}
        assert codes[1] <= checked_at_most(time.monotonic() - began)


# The other doors share the count.


def test_guesses_over_websocket_meet_the_delay_and_lock_out_nobody_else() -> None:
    with serving() as broker:
        for user in ("u", "other"):
            broker.add_user(user, "secret", ("monitoring",))
            broker.set_permissions(user, "/")
        relays = [WebSocketRelay(f"ws://127.0.0.1:{broker.http_port}/ws") for _ in range(10)]
        began = time.monotonic()
        guessers = [RawConnection("127.0.0.1", relay.port) for relay in relays]
        for number, raw in enumerate(guessers):
            raw.login(plain("u", f"guess {number}"))
        asked = time.monotonic()
        pika_connection(broker.url_for("other", "secret")).close()
        assert Pages(broker, ("other", "secret")).get("/metrics").status_code == 200
        assert time.monotonic() - asked < LOGIN_SECONDS
        endings = Counter(ending(raw) for raw in guessers)
        assert set(endings) <= {"403", "506"}
        assert endings["403"] <= checked_at_most(time.monotonic() - began)
        for raw, relay in zip(guessers, relays, strict=True):
            raw.socket.close()
            relay.close()


def test_failures_at_one_door_delay_the_next_at_another() -> None:
    with serving() as broker:
        broker.add_user("u", "secret", ("monitoring",))
        wrong = Pages(broker, ("u", "wrong"))
        for _ in range(4):
            assert wrong.get("/metrics").status_code == 401
        began = time.monotonic()
        with RawConnection(broker.host, broker.port) as raw:
            Proof("u", "wrong").send_on(raw)
            assert refusal(raw)[0] == 403
        # The fifth failure; the first one would be answered after a tenth of a second.
        assert time.monotonic() - began >= delay_ms(5) / 1000


# What the log says of all that.


def test_no_password_hash_or_key_is_in_the_log(tmp_path: Path) -> None:
    secrets = ["first-guess", "second-guess", "chosen-password", "imported-password"]
    with logging_broker(tmp_path, '[log]\nlevel = "debug"\n') as (facts, log):
        address = f"http://{facts['http']}"
        guest = httpx.Client(base_url=address, auth=("guest", "guest"), timeout=PATIENCE_SECONDS)
        with RawConnection("127.0.0.1", port_of(facts)) as raw:
            raw.login(plain("guest", secrets[0]))
            assert refusal(raw)[0] == 403
        with guest:
            wrong = guest.get("/api/overview", auth=("guest", secrets[1]))
            assert wrong.status_code == 401
            chosen = {"password": secrets[2], "tags": "management"}
            assert guest.put("/api/users/ann", json=chosen).status_code == 201
            imported = {"users": [{"name": "bob", "password": secrets[3], "tags": []}]}
            assert guest.post("/api/definitions", json=imported).status_code == 204
            for user in guest.get("/api/definitions").json()["users"]:
                secrets.append(user["password_hash"])
                secrets.extend(user.get("penstock_scram_keys", "").split("$")[1:])
        wait_for(lambda: is_logged(log, "ann") and is_logged(log, "login refused user=guest"), 30)
    text = log.read_text()
    assert len(secrets) > 8
    for secret in secrets:
        assert secret
        assert secret not in text
