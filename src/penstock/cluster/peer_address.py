"""The address of a member, as an operator writes it: `HOST:PORT` or `amqps://HOST:PORT`."""

from typing import Final

from penstock.world.network import DialAddress

_TLS: Final = "amqps://"
_PORT_MAX: Final = 65_535


def dial_address(text: str) -> DialAddress:
    """Raises `ValueError` for a text that is not of this form."""
    is_tls = text.startswith(_TLS)
    rest = text[len(_TLS) :] if is_tls else text
    host, colon, port = rest.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    is_number = port.isascii() and port.isdigit() and len(port) <= 5
    if not colon or not host or "/" in rest or not is_number or not 0 < int(port) <= _PORT_MAX:
        raise ValueError(
            f"'{text}' is not a valid address of a member: HOST:PORT, or {_TLS}HOST:PORT"
        )
    return DialAddress(host, int(port), is_tls)
