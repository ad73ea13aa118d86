"""The payload of a message in a stream's log; rows of a sink and of a lease have the same form.

    +----------+----------+------+-----+--------+--------+------+------+
    | exchange | exchange | key  | key | header | header | body | body |
    | size     |          | size |     | size   |        | size |      |
    | u8       |          | u8   |     | u32    |        | u32  |      |
    +----------+----------+------+-----+--------+--------+------+------+
    |<----------- address ------------>|

Little-endian. The first four fields together are the *address*: exchange and routing key as two
short strings. The header is that of the dialect that published the message; it is not decoded here.
The sizes lead from one payload to the next, so that a stream's index can be rebuilt from its log.

Spark reads the same fields by the columns of the index (`stream_index`), without a step per message.
"""

from typing import Final

from penstock.formats.octets import read_u8, read_u32_le, write_u32_le

# Of a payload, beside its four parts: two sizes of one octet and two of four.
FRAMING_SIZE: Final = 10
# Of the field before the header, and of the one before the body.
SIZE_WIDTH: Final = 4
# What the address and the size of the header occupy at most.
ADDRESS_SIZE_MAX: Final = 2 + 2 * 255


def encode_opening(address: bytes, header: bytes, body_size: int) -> bytes:
    """Everything before the body. Payloads that repeat one another have the same."""
    return b"".join([address, write_u32_le(len(header)), header, write_u32_le(body_size)])


def encode_payload(address: bytes, header: bytes, body: bytes) -> bytes:
    return b"".join([address, write_u32_le(len(header)), header, write_u32_le(len(body)), body])


def address_size(payload: bytes) -> int:
    """Raises `Truncated` when the sizes of both names are missing."""
    key = 1 + read_u8(payload, 0)
    return key + 1 + read_u8(payload, key)


class PayloadParts:
    """Where the parts of the payload that begins at `start` are in `data`.

    For reading single payloads; loops over many inline the same steps.
    """

    def __init__(self, data: bytes, start: int) -> None:
        """Raises `Truncated` when a size is missing; the body may be."""
        self.start: int = start
        # Of the octet with the key's size.
        self.key: int = start + 1 + read_u8(data, start)
        self.header: int = self.key + 1 + read_u8(data, self.key) + SIZE_WIDTH
        self.header_size: int = read_u32_le(data, self.header - SIZE_WIDTH)
        self.body: int = self.header + self.header_size + SIZE_WIDTH
        self.body_size: int = read_u32_le(data, self.body - SIZE_WIDTH)
        self.end: int = self.body + self.body_size
