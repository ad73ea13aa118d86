"""The SASL layer and the open, on the server's side: what differs from AMQP 0-9-1; the common part
is in `dialects.login` and `dialects.mechanisms`.

A client that begins without a SASL layer is treated as one that chose ANONYMOUS, if that is
offered.
"""

from typing import Final

from penstock.broker.state import DEFAULT_VHOST
from penstock.dialects.mechanisms import AMQPLAIN

# What the log calls the login of a client without a SASL layer.
NO_SASL: Final = "none"
# Of the SASL outcome.
LOGGED_IN: Final = 0
REFUSED: Final = 1
TRY_AGAIN: Final = 4  # sys-temp: the password was not checked

# How RabbitMQ names a virtual host in the hostname of an open.
_VHOST_START: Final = "vhost:"
# What RabbitMQ 4 offers; its clients look for the first two. The rest is ours in addition.
OFFERED_CAPABILITIES: Final = ("ANONYMOUS-RELAY", "LINK_PAIR_V1_0", "SHARED-SUBS")


# Of the peer's frames: below it an open says nothing about this server, so that it fits.
FRAME_SIZE_FOR_PROPERTIES: Final = 4_096
_PROPERTIES: Final = ("product", "version", "platform", "cluster_name")


def open_properties(server_properties: dict[str, object]) -> dict[str, object]:
    """What an open says about this server: less than AMQP 0-9-1 does, because there the
    capabilities are among them.
    """
    return {name: server_properties[name] for name in _PROPERTIES if name in server_properties}


def mechanisms(offered: list[str]) -> list[str]:
    """AMQPLAIN is a field table of AMQP 0-9-1, which nobody else can read."""
    return [name for name in offered if name != AMQPLAIN]


def vhost_of(hostname: str | None) -> str:
    """An open without a virtual host, with the name of a machine as clients say it, means the
    default one.
    """
    if hostname is not None and hostname.startswith(_VHOST_START):
        return hostname[len(_VHOST_START) :]
    return DEFAULT_VHOST
