"""AMQPLAIN: the older AMQP login, a field table without its size octets."""

from penstock.formats.octets import Malformed, write_u32
from penstock.wire.amqp091.field_table import decode_table, encode_table


def parse_amqplain(response: bytes) -> tuple[str, str]:
    """User and password."""
    table = decode_table(write_u32(len(response)) + response, 0)
    user = table.get("LOGIN")
    password = table.get("PASSWORD")
    if not isinstance(user, str) or not isinstance(password, str):
        raise Malformed("an AMQPLAIN response must contain LOGIN and PASSWORD as long strings")
    return user, password


def amqplain_response(user: str, password: str) -> bytes:
    return encode_table({"LOGIN": user, "PASSWORD": password})[4:]
