"""The states of a connection and what moves it from one to the next.

Two rules for this file: everything that decides whether a connection method may be sent now is in
these tables; they do not depend on our role, because no method is sent by both sides in the same
state. connection.close and close-ok are not in the tables: they may come in every state after the
protocol header.

A state called AWAITING_X waits for the peer; the others of the handshake wait for our listener.
"""

from enum import Enum
from typing import Final

from penstock.wire.amqp091.methods_generated import (
    CONNECTION_BLOCKED,
    CONNECTION_OPEN,
    CONNECTION_OPEN_OK,
    CONNECTION_SECURE,
    CONNECTION_SECURE_OK,
    CONNECTION_START,
    CONNECTION_START_OK,
    CONNECTION_TUNE,
    CONNECTION_TUNE_OK,
    CONNECTION_UNBLOCKED,
    CONNECTION_UPDATE_SECRET,
    CONNECTION_UPDATE_SECRET_OK,
    NAMES,
)


class Role(Enum):
    SERVER = "server"
    CLIENT = "client"


class ConnectionState(Enum):
    # Server, in the order of the handshake.
    AWAITING_HEADER = "awaiting the protocol header"
    HEADER_AGREED = "header agreed"
    AWAITING_START_OK = "awaiting connection.start-ok"
    AUTHENTICATING = "authenticating"
    AWAITING_SECURE_OK = "awaiting connection.secure-ok"
    AWAITING_TUNE_OK = "awaiting connection.tune-ok"
    AWAITING_OPEN = "awaiting connection.open"
    OPENING = "opening"
    # Client.
    NOT_STARTED = "not started"
    AWAITING_START = "awaiting connection.start"
    STARTING = "starting"
    AWAITING_TUNE = "awaiting connection.tune"
    SECURING = "securing"
    TUNING = "tuning"
    TUNED = "tuned"
    AWAITING_OPEN_OK = "awaiting connection.open-ok"
    # Both.
    OPEN = "open"
    CLOSING = "closing"
    ENDED = "ended"


class ChannelState(Enum):
    OPENING = "opening"  # client: channel.open is sent
    OPEN = "open"
    CLOSING = "closing"  # channel.close is sent; all but close and close-ok is discarded


S = ConnectionState

# What may be received when, and the state it leads to.
RECEIVED: Final[dict[tuple[ConnectionState, int], ConnectionState]] = {
    (S.AWAITING_START_OK, CONNECTION_START_OK): S.AUTHENTICATING,
    (S.AWAITING_SECURE_OK, CONNECTION_SECURE_OK): S.AUTHENTICATING,
    (S.AWAITING_TUNE_OK, CONNECTION_TUNE_OK): S.AWAITING_OPEN,
    (S.AWAITING_OPEN, CONNECTION_OPEN): S.OPENING,
    (S.OPEN, CONNECTION_UPDATE_SECRET): S.OPEN,
    (S.AWAITING_START, CONNECTION_START): S.STARTING,
    (S.AWAITING_TUNE, CONNECTION_SECURE): S.SECURING,
    (S.AWAITING_TUNE, CONNECTION_TUNE): S.TUNING,
    (S.AWAITING_OPEN_OK, CONNECTION_OPEN_OK): S.OPEN,
    (S.OPEN, CONNECTION_BLOCKED): S.OPEN,
    (S.OPEN, CONNECTION_UNBLOCKED): S.OPEN,
    (S.OPEN, CONNECTION_UPDATE_SECRET_OK): S.OPEN,
}

# What we may send when; anything else is a defect of ours.
SENT: Final[dict[tuple[ConnectionState, int], ConnectionState]] = {
    (S.HEADER_AGREED, CONNECTION_START): S.AWAITING_START_OK,
    (S.AUTHENTICATING, CONNECTION_SECURE): S.AWAITING_SECURE_OK,
    (S.AUTHENTICATING, CONNECTION_TUNE): S.AWAITING_TUNE_OK,
    (S.OPENING, CONNECTION_OPEN_OK): S.OPEN,
    (S.OPEN, CONNECTION_BLOCKED): S.OPEN,
    (S.OPEN, CONNECTION_UNBLOCKED): S.OPEN,
    (S.OPEN, CONNECTION_UPDATE_SECRET_OK): S.OPEN,
    (S.STARTING, CONNECTION_START_OK): S.AWAITING_TUNE,
    (S.SECURING, CONNECTION_SECURE_OK): S.AWAITING_TUNE,
    (S.TUNING, CONNECTION_TUNE_OK): S.TUNED,
    (S.TUNED, CONNECTION_OPEN): S.AWAITING_OPEN_OK,
    (S.OPEN, CONNECTION_UPDATE_SECRET): S.OPEN,
}


def expected_in(state: ConnectionState) -> str:
    """The methods that a peer may send in this state, for the text of a refusal."""
    names = [NAMES[identity] for source, identity in RECEIVED if source is state]
    return " or ".join(names) if names and state is not S.OPEN else "nothing of the handshake"
