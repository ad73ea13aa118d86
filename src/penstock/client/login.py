"""The client's properties, and its login."""

from typing import Final

from penstock.client.uri import MECHANISMS, Address
from penstock.formats.octets import Malformed
from penstock.formats.scram_keys import SCRAM_SHA_256
from penstock.wire.amqp091.amqplain import amqplain_response
from penstock.wire.amqp091.errors import ConnectionFault
from penstock.wire.amqp091.methods_generated import (
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from penstock.wire.amqp091.reply_codes_generated import ACCESS_REFUSED, NOT_ALLOWED
from penstock.wire.sasl import plain_response
from penstock.wire.scram import ScramClient

PLAIN: Final = "PLAIN"
AMQPLAIN: Final = "AMQPLAIN"
LOCALE: Final = "en_US"
# Of the nonce that a skin draws for each connection. Without one there is no SCRAM.
NONCE_OCTETS: Final = 18
_LOOPBACK: Final = ("localhost", "127.", "::1")

# A broker sends connection.blocked, consumer cancels and the reason of a refused login only to
# clients with the capabilities for them.
CAPABILITIES: Final[dict[str, object]] = {
    "authentication_failure_close": True,
    "basic.nack": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "publisher_confirms": True,
}


class ClientLogin:
    """One login as the client sees it. Held by its conversation until the connection is open."""

    def __init__(self, address: Address, nonce: str) -> None:
        self._address: Address = address
        self._nonce: str = nonce
        self._scram: ScramClient | None = None
        self._is_challenged: bool = False
        # Whether the broker has proved that it knows the password, where the mechanism lets it.
        self._is_verified: bool = True

    def answer_start(self, start: ConnectionStart, name: str) -> ConnectionStartOk:
        mechanism = self._chosen(start.mechanisms.decode("utf-8", "replace").split())
        properties: dict[str, object] = {"product": "Penstock client", "capabilities": CAPABILITIES}
        if name:
            properties["connection_name"] = name
        return ConnectionStartOk(properties, mechanism, self._first_response(mechanism), LOCALE)

    def _chosen(self, offered: list[str]) -> str:
        """What the address names. Else PLAIN, but for passwords that would cross a network in the
        clear: there SCRAM-SHA-256, if the broker has it.
        """
        wanted = self._address.mechanism
        if wanted:
            if wanted in offered:
                return wanted
            what = f"the address asks for {wanted}"
        else:
            is_local = self._address.host.startswith(_LOOPBACK)
            is_exposed = self._address.tls is None and not is_local
            if is_exposed and self._nonce and SCRAM_SHA_256 in offered:
                return SCRAM_SHA_256
            for mechanism in (PLAIN, SCRAM_SHA_256, AMQPLAIN):
                if mechanism in offered and (self._nonce or mechanism != SCRAM_SHA_256):
                    return mechanism
            what = f"this client supports {', '.join(MECHANISMS)}"
        raise ConnectionFault(
            NOT_ALLOWED, f"the broker offers {' '.join(offered) or 'no login'}; {what}"
        )

    def _first_response(self, mechanism: str) -> bytes:
        address = self._address
        if mechanism == PLAIN:
            return plain_response(address.user, address.password)
        if mechanism == AMQPLAIN:
            return amqplain_response(address.user, address.password)
        if mechanism == SCRAM_SHA_256:
            assert self._nonce, "a skin that lets its user choose SCRAM draws a nonce"
            self._is_verified = False
            self._scram = ScramClient(address.user, address.password, self._nonce)
            return self._scram.start()
        # The certificate names who we are, or nobody does.
        return b""

    def answer_secure(self, secure: ConnectionSecure) -> ConnectionSecureOk:
        """The broker's challenge, or its own proof."""
        scram = self._scram
        if scram is None:
            raise ConnectionFault(NOT_ALLOWED, "the broker sent a challenge that nobody asked for")
        try:
            if not self._is_challenged:
                self._is_challenged = True
                return ConnectionSecureOk(scram.answer(secure.challenge))
            self._is_verified = scram.verify(secure.challenge)
        except Malformed as error:
            raise ConnectionFault(ACCESS_REFUSED, f"malformed challenge: {error}") from error
        self._check_verified()
        return ConnectionSecureOk(b"")

    def answer_tune(self, tune: ConnectionTune) -> ConnectionTuneOk:
        """The smaller value wins, and 0 means no limit; but only the client may switch heartbeats
        off.
        """
        self._check_verified()
        address = self._address
        heartbeat = address.heartbeat_seconds
        if heartbeat and tune.heartbeat:
            heartbeat = min(heartbeat, tune.heartbeat)
        return ConnectionTuneOk(
            _smaller(tune.channel_max, address.channel_max),
            _smaller(tune.frame_max, address.frame_max),
            heartbeat,
        )

    def _check_verified(self) -> None:
        """Or somebody in between could accept every password and read what is published."""
        if not self._is_verified:
            raise ConnectionFault(
                ACCESS_REFUSED, "the broker did not prove that it knows the password"
            )


def _smaller(one: int, other: int) -> int:
    return min(one, other) if one and other else one or other
