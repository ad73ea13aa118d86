"""Names of exchanges and queues: which are valid, which are reserved, which the server
generates.
"""

import base64
from typing import Final

from penstock.broker.errors import AccessRefused, PreconditionFailed
from penstock.formats.octets import SHORT_STRING_BYTES_MAX
from penstock.world.entropy import Entropy

# A name travels as a short string; longer ones are refused.
NAME_OCTETS_MAX: Final = SHORT_STRING_BYTES_MAX
# Patterns are the operator's; this only stops a pasted file.
PATTERN_LENGTH_MAX: Final = 4096
RESERVED_PREFIX: Final = "amq."
SERVER_NAMED_PREFIX: Final = "amq.gen-"
# 128 random bits do not collide, and RabbitMQ uses as many: the names look the same.
SERVER_NAME_OCTETS: Final = 16


def server_named(entropy: Entropy) -> str:
    octets = base64.urlsafe_b64encode(entropy.octets(SERVER_NAME_OCTETS))
    return SERVER_NAMED_PREFIX + octets.decode("ascii").rstrip("=")


def without_line_breaks(name: str) -> str:
    """Dialects drop line breaks from names before they make a command, as RabbitMQ does."""
    return name.replace("\r", "").replace("\n", "")


def check_not_reserved(kind: str, name: str) -> None:
    """`kind` is "queue" or "exchange"; only new names are checked, predeclared ones exist."""
    if name.startswith(RESERVED_PREFIX):
        raise AccessRefused(f"{kind} name '{name}' contains reserved prefix 'amq.*'")


def check_length(kind: str, name: str) -> None:
    if _octet_count(f"the {kind} name", name) > NAME_OCTETS_MAX:
        raise PreconditionFailed(
            f"{kind} name is longer than {NAME_OCTETS_MAX} bytes: '{name[:40]}...'"
        )


def check_operators_name(what: str, name: str) -> None:
    """Of something that only an operator makes; `what` reads "a vhost name"."""
    if not 0 < _octet_count(what, name) <= NAME_OCTETS_MAX:
        raise PreconditionFailed(f"{what} must have 1 to {NAME_OCTETS_MAX} bytes")


def _octet_count(what: str, name: str) -> int:
    """JSON can say half of a character, which no octets stand for."""
    try:
        return len(name.encode(errors="surrogateescape"))
    except UnicodeEncodeError:
        raise PreconditionFailed(f"{what} must be a valid Unicode string") from None


def described(kind: str, name: str, vhost: str) -> str:
    """How refusals speak of an object: "queue 'q' in vhost '/'"."""
    return f"{kind} '{name}' in vhost '{vhost}'"
