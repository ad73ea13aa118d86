"""Names that requests may not use, with the texts of RabbitMQ's management."""

from penstock.broker.names import NAME_OCTETS_MAX, RESERVED_PREFIX, described
from penstock.dialects.amqp10.management.refusals import FORBIDDEN, RequestRefusal, bad_request


def check_name(kind: str, name: str) -> None:
    """`kind` is "queue" or "exchange"."""
    if "\n" in name or "\r" in name:
        raise bad_request(
            f"Bad name '{name}': line feed and carriage return characters not allowed"
        )
    check_length(f"{kind} name", name)


def check_length(what: str, text: str) -> None:
    """Of what travels as a short string in AMQP 0-9-1: names, and keys too."""
    if len(text.encode()) > NAME_OCTETS_MAX:
        raise bad_request(f"{what} is longer than {NAME_OCTETS_MAX} bytes: '{text[:40]}...'")


def check_not_reserved(kind: str, name: str, vhost: str) -> None:
    if name.startswith(RESERVED_PREFIX):
        what = described(kind, name, vhost)
        raise RequestRefusal(FORBIDDEN, f"{what} starts with reserved prefix '{RESERVED_PREFIX}'")


def check_not_default(exchange: str) -> None:
    if not exchange:
        raise RequestRefusal(FORBIDDEN, "operation not permitted on the default exchange")
