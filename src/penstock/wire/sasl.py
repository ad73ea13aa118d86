"""SASL PLAIN (RFC 4616): an authorisation identity, a user and a password, divided by NUL."""

from penstock.formats.octets import Malformed


def parse_plain(response: bytes) -> tuple[str, str]:
    """User and password. The authorisation identity is ignored, as RabbitMQ does."""
    parts = response.split(b"\x00")
    if len(parts) != 3:
        raise Malformed(f"a PLAIN response must contain 2 NUL octets, not {len(parts) - 1}")
    try:
        return parts[1].decode("utf-8"), parts[2].decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed("a PLAIN response is not valid UTF-8") from error


def plain_response(user: str, password: str) -> bytes:
    if "\x00" in user or "\x00" in password:
        raise ValueError("a user name or password for PLAIN must not contain NUL")
    return b"\x00" + user.encode("utf-8") + b"\x00" + password.encode("utf-8")
