"""Bodies that are AMQP 1.0 values, for queries that want the text in them.

A body of AMQP 1.0 other than data stays encoded and has the type `amqp-1.0`, in a row as for a
consumer of AMQP 0-9-1: so a row that is published again is the same message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.functions import col, udf, when
from pyspark.sql.types import BinaryType

from penstock.formats.octets import Malformed
from penstock.wire.amqp10.decoding import Reader
from penstock.wire.amqp10.performatives_generated import AMQP_VALUE
from penstock.wire.amqp10.sections import Sections

if TYPE_CHECKING:
    from pyspark.sql import Column

ENCODED_TYPE: Final = "amqp-1.0"


def plain_body(body: str = "body", kind: str = "properties.type") -> Column:
    """The body of each row, without the encoding around a text or octets: an expression for
    `select`, over the columns of these names. Any other body stays as it is.
    """
    # Without type hints, which Spark would use to choose how to call it.
    decoded = udf(lambda octets: decode_value(octets), BinaryType(), useArrow=False)  # noqa: PLW0108
    return when(col(kind) == ENCODED_TYPE, decoded(col(body))).otherwise(col(body))


def decode_value(octets: bytes | None) -> bytes | None:
    if octets is None:
        return None
    octets = bytes(octets)
    try:
        if Sections(octets).body_kind != AMQP_VALUE:
            return octets
        reader = Reader(octets, 0, len(octets))
        reader.described_as()
        value = reader.value()
    except (Malformed, ValueError):
        return octets
    if isinstance(value, str):
        return value.encode(errors="surrogateescape")
    return value if isinstance(value, bytes) else octets
