"""The states of a connection, its SASL layer, a session and a link, and what moves them.

Two rules for this file: everything that decides whether a performative of the control plane may be
sent now is in these tables; they do not depend on our role, because both sides of AMQP 1.0 have the
same states (specification 2.4.6, 2.5.5, 2.6.3). The SASL layer has a side for each role, and no
frame of it is sent by both.

Sent and received differ: a pair that is missing in a RECEIVED table is the peer's mistake, one
that is missing in a SENT table is ours.
"""

from enum import Enum
from typing import Final

from penstock.wire.amqp10.performatives_generated import (
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    OPEN,
    SASL_CHALLENGE,
    SASL_INIT,
    SASL_MECHANISMS,
    SASL_OUTCOME,
    SASL_RESPONSE,
    TRANSFER,
)

# The protocol header, among the codes of performatives.
PROTOCOL: Final = 0


class Role(Enum):
    SERVER = "server"
    CLIENT = "client"


class SaslState(Enum):
    # Server.
    OFFERING = "offering mechanisms"
    AWAITING_INIT = "awaiting sasl-init"
    AUTHENTICATING = "authenticating"
    AWAITING_RESPONSE = "awaiting sasl-response"
    # Client.
    AWAITING_MECHANISMS = "awaiting sasl-mechanisms"
    CHOOSING = "choosing a mechanism"
    AWAITING_OUTCOME = "awaiting sasl-outcome"
    CHALLENGED = "challenged"
    # Both: not begun, or over.
    NONE = "no SASL layer"


A = SaslState

SASL_RECEIVED: Final[dict[tuple[SaslState, int], SaslState]] = {
    (A.AWAITING_INIT, SASL_INIT): A.AUTHENTICATING,
    (A.AWAITING_RESPONSE, SASL_RESPONSE): A.AUTHENTICATING,
    (A.AWAITING_MECHANISMS, SASL_MECHANISMS): A.CHOOSING,
    (A.AWAITING_OUTCOME, SASL_CHALLENGE): A.CHALLENGED,
    (A.AWAITING_OUTCOME, SASL_OUTCOME): A.NONE,
}
SASL_SENT: Final[dict[tuple[SaslState, int], SaslState]] = {
    (A.OFFERING, SASL_MECHANISMS): A.AWAITING_INIT,
    (A.AUTHENTICATING, SASL_CHALLENGE): A.AWAITING_RESPONSE,
    (A.AUTHENTICATING, SASL_OUTCOME): A.NONE,
    (A.CHOOSING, SASL_INIT): A.AWAITING_OUTCOME,
    (A.CHALLENGED, SASL_RESPONSE): A.AWAITING_OUTCOME,
}
# The peer's input is held back meanwhile: our listener has not answered yet, and the next input
# depends on that.
SASL_HELD: Final = frozenset({A.AUTHENTICATING, A.CHOOSING, A.CHALLENGED})


class ConnectionState(Enum):
    START = "start"
    HEADER_RECEIVED = "header received"
    HEADER_SENT = "header sent"
    HEADER_EXCHANGED = "header exchanged"
    OPEN_PIPED = "header and open sent"
    OPEN_RECEIVED = "open received"
    OPEN_SENT = "open sent"
    OPENED = "opened"
    CLOSE_PIPED = "open and close sent"
    CLOSE_RECEIVED = "close received"
    CLOSE_SENT = "close sent"
    ENDED = "ended"


C = ConnectionState

# What the other performatives need is C.OPENED. While CLOSE_PIPED or CLOSE_SENT, everything but
# open and close is discarded: the specification's DISCARDING, also after a close without error.
CONNECTION_RECEIVED: Final[dict[tuple[ConnectionState, int], ConnectionState]] = {
    (C.START, PROTOCOL): C.HEADER_RECEIVED,
    (C.HEADER_SENT, PROTOCOL): C.HEADER_EXCHANGED,
    (C.OPEN_PIPED, PROTOCOL): C.OPEN_SENT,
    (C.HEADER_EXCHANGED, OPEN): C.OPEN_RECEIVED,
    (C.OPEN_SENT, OPEN): C.OPENED,
    (C.CLOSE_PIPED, OPEN): C.CLOSE_SENT,
    (C.OPENED, CLOSE): C.CLOSE_RECEIVED,
    (C.CLOSE_SENT, CLOSE): C.ENDED,
}
CONNECTION_SENT: Final[dict[tuple[ConnectionState, int], ConnectionState]] = {
    (C.START, PROTOCOL): C.HEADER_SENT,
    (C.HEADER_RECEIVED, PROTOCOL): C.HEADER_EXCHANGED,
    (C.HEADER_SENT, OPEN): C.OPEN_PIPED,
    (C.HEADER_EXCHANGED, OPEN): C.OPEN_SENT,
    (C.OPEN_RECEIVED, OPEN): C.OPENED,
    (C.OPEN_SENT, CLOSE): C.CLOSE_PIPED,
    (C.OPENED, CLOSE): C.CLOSE_SENT,
    (C.CLOSE_RECEIVED, CLOSE): C.ENDED,
}
# In these we may send begin and everything after it: the peer need not have answered.
SPEAKING: Final = frozenset({C.OPEN_PIPED, C.OPEN_SENT, C.OPENED})
# An open has been sent, so a close may be; before, there is nothing but the transport to close.
CLOSING: Final = frozenset({C.CLOSE_PIPED, C.CLOSE_SENT, C.ENDED})


class SessionState(Enum):
    UNMAPPED = "unmapped"
    BEGIN_SENT = "begin sent"
    BEGIN_RECEIVED = "begin received"
    MAPPED = "mapped"
    END_SENT = "end sent"  # all but end is discarded
    END_RECEIVED = "end received"
    ENDED = "ended"


S = SessionState

_ON_A_SESSION: Final = (ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH)

SESSION_RECEIVED: Final[dict[tuple[SessionState, int], SessionState]] = {
    (S.UNMAPPED, BEGIN): S.BEGIN_RECEIVED,
    (S.BEGIN_SENT, BEGIN): S.MAPPED,
    (S.MAPPED, END): S.END_RECEIVED,
    (S.END_SENT, END): S.ENDED,
    # Our end went out before the peer's begin came in.
    (S.END_SENT, BEGIN): S.END_SENT,
    **{(S.MAPPED, code): S.MAPPED for code in _ON_A_SESSION},
    **{(S.END_SENT, code): S.END_SENT for code in _ON_A_SESSION},
}
SESSION_SENT: Final[dict[tuple[SessionState, int], SessionState]] = {
    (S.UNMAPPED, BEGIN): S.BEGIN_SENT,
    (S.BEGIN_RECEIVED, BEGIN): S.MAPPED,
    (S.BEGIN_SENT, END): S.END_SENT,
    (S.MAPPED, END): S.END_SENT,
    (S.END_RECEIVED, END): S.ENDED,
    **{(S.BEGIN_SENT, code): S.BEGIN_SENT for code in _ON_A_SESSION},
    **{(S.MAPPED, code): S.MAPPED for code in _ON_A_SESSION},
}


class LinkState(Enum):
    DETACHED = "detached"
    ATTACH_SENT = "attach sent"
    ATTACH_RECEIVED = "attach received"
    ATTACHED = "attached"
    DETACH_SENT = "detach sent"  # all but detach is discarded
    DETACH_RECEIVED = "detach received"
    ENDED = "ended"


L = LinkState

LINK_RECEIVED: Final[dict[tuple[LinkState, int], LinkState]] = {
    (L.DETACHED, ATTACH): L.ATTACH_RECEIVED,
    (L.ATTACH_SENT, ATTACH): L.ATTACHED,
    (L.ATTACHED, DETACH): L.DETACH_RECEIVED,
    (L.ATTACH_RECEIVED, DETACH): L.DETACH_RECEIVED,
    (L.DETACH_SENT, DETACH): L.ENDED,
    # Our detach went out before the peer's attach came in.
    (L.DETACH_SENT, ATTACH): L.DETACH_SENT,
    (L.ATTACHED, FLOW): L.ATTACHED,
    (L.ATTACHED, TRANSFER): L.ATTACHED,
    # A receiver may give credit with its attach, before our listener has decided about it.
    (L.ATTACH_RECEIVED, FLOW): L.ATTACH_RECEIVED,
    (L.DETACH_SENT, FLOW): L.DETACH_SENT,
    (L.DETACH_SENT, TRANSFER): L.DETACH_SENT,
}
LINK_SENT: Final[dict[tuple[LinkState, int], LinkState]] = {
    (L.DETACHED, ATTACH): L.ATTACH_SENT,
    (L.ATTACH_RECEIVED, ATTACH): L.ATTACHED,
    (L.ATTACH_SENT, FLOW): L.ATTACH_SENT,
    (L.ATTACHED, FLOW): L.ATTACHED,
    (L.ATTACHED, TRANSFER): L.ATTACHED,
    (L.ATTACH_SENT, DETACH): L.DETACH_SENT,
    (L.ATTACHED, DETACH): L.DETACH_SENT,
    (L.DETACH_RECEIVED, DETACH): L.ENDED,
}
