"""The SASL layer and the open, on the server's side.

    mechanism       who
    PLAIN           users with their passwords
    ANONYMOUS       the default user, as long as it has its default password; where the operator
                    allows it, and from where that user may log in

A client that begins without a SASL layer is taken for one that chose ANONYMOUS, where that is
offered.

SCRAM-SHA-256 needs keys derived from each password. Users have argon2id hashes, from which they
cannot be derived, so it is not offered; EXTERNAL is not without TLS.
"""

from typing import Final

from penstock.broker.access.users import DEFAULT_USER
from penstock.broker.state import DEFAULT_VHOST
from penstock.wire.amqp10.performatives_generated import SaslInit
from penstock.wire.octets import Malformed
from penstock.wire.sasl import parse_plain

PLAIN: Final = "PLAIN"
ANONYMOUS: Final = "ANONYMOUS"
# Of the SASL outcome.
LOGGED_IN: Final = 0
REFUSED: Final = 1
TRY_AGAIN: Final = 4  # sys-temp: the password was not looked at

# How RabbitMQ names a virtual host in the hostname of an open.
_VHOST_START: Final = "vhost:"
# What RabbitMQ 4 offers; its clients look for the first two. The rest is ours in addition.
OFFERED_CAPABILITIES: Final = ("ANONYMOUS-RELAY", "LINK_PAIR_V1_0", "SHARED-SUBS")


# Of the peer's frames: below it an open says nothing about this server, so that it fits.
FRAME_SIZE_FOR_PROPERTIES: Final = 4_096
_PROPERTIES: Final = ("product", "version", "platform", "cluster_name")


def open_properties(server_properties: dict[str, object]) -> dict[str, object]:
    """What an open says about this server: less than AMQP 0-9-1 does, because there the
    capabilities stand among them.
    """
    return {name: server_properties[name] for name in _PROPERTIES if name in server_properties}


# Everybody knows this password. Who has changed it has also ended this way in.
ANONYMOUS_LOGIN: Final = (DEFAULT_USER, DEFAULT_USER.encode())
ANONYMOUS_REFUSED: Final = (
    f"anonymous clients are let in only where amqp10.anonymous allows it, from where '{DEFAULT_USER}' "
    f"may log in, and while '{DEFAULT_USER}' has its default password: log in with SASL PLAIN"
)


def mechanisms(allows_anonymous: bool) -> list[str]:
    return [PLAIN, ANONYMOUS] if allows_anonymous else [PLAIN]


def credentials(init: SaslInit, allows_anonymous: bool) -> tuple[str, bytes] | None:
    """User and password, whichever mechanism carried them; None for what nobody can check."""
    mechanism = init.mechanism
    if mechanism == PLAIN:
        try:
            user, password = parse_plain(init.initial_response or b"")
        except Malformed:
            return None
        return user, password.encode("utf-8", "surrogateescape")
    if mechanism == ANONYMOUS and allows_anonymous:
        return ANONYMOUS_LOGIN
    return None


def vhost_of(hostname: str | None) -> str:
    """An open without a virtual host, with the name of a machine as clients say it, means the
    default one.
    """
    if hostname is not None and hostname.startswith(_VHOST_START):
        return hostname[len(_VHOST_START) :]
    return DEFAULT_VHOST
