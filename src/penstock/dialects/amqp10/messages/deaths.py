"""The deaths of a dead-lettered message in AMQP 1.0: the annotation `x-opt-deaths`, as RabbitMQ 4
writes it, and the `x-death` header that the broker keeps.

    x-opt-deaths   array of maps: ttl? queue reason count first-time last-time exchange routing-keys
    x-death        list of tables: count reason queue time exchange routing-keys original-expiration?

Values on both sides are AMQP 1.0's. The broker does not keep when a message died last in the same
way, so `last-time` says what `first-time` says.
"""

from typing import Final

from penstock.wire.amqp10.values import Array, Symbol, Timestamp, UInt, ULong

DEATHS: Final = "x-death"
DEATHS_ANNOTATION: Final = Symbol("x-opt-deaths")
_MAP: Final = 0xD1
_STRING: Final = 0xB1
_UINT_MAX: Final = 2**32 - 1


def deaths_array(deaths: object) -> Array | None:
    """The annotation of a header; None when it is not of the shape that the broker writes."""
    if not isinstance(deaths, list) or not deaths:
        return None
    maps: list[object] = []
    for death in deaths:
        written = _written(death) if isinstance(death, dict) else None
        if written is None:
            return None
        maps.append(written)
    return Array(_MAP, maps)


def _written(death: dict[object, object]) -> dict[object, object] | None:
    queue = death.get("queue")
    reason = death.get("reason")
    count = death.get("count")
    # Never narrowed to a timestamp, which compiled is a plain int.
    time = death.get("time")
    exchange = death.get("exchange")
    keys = _texts(death.get("routing-keys"))
    expiration = death.get("original-expiration")
    if not isinstance(queue, str) or not isinstance(reason, str) or not reason.isascii():
        return None
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        return None
    if not _is_timestamp(time) or not isinstance(exchange, str) or keys is None:
        return None
    written: dict[object, object] = {}
    if isinstance(expiration, str) and expiration.isdecimal() and expiration.isascii():
        # AMQP 1.0 cannot express a time to live with more digits than 32 bits have.
        if len(expiration) > 10 or int(expiration) > _UINT_MAX:
            return None
        written[Symbol("ttl")] = UInt(int(expiration))
    written[Symbol("queue")] = str(queue)
    written[Symbol("reason")] = Symbol(reason)
    written[Symbol("count")] = ULong(count)
    written[Symbol("first-time")] = time
    written[Symbol("last-time")] = time
    written[Symbol("exchange")] = str(exchange)
    written[Symbol("routing-keys")] = Array(_STRING, keys)
    return written


def deaths_of(annotation: object) -> list[object] | None:
    """The header of an annotation; None when it is not of RabbitMQ's shape."""
    if not isinstance(annotation, Array) or annotation.code != _MAP:
        return None
    deaths: list[object] = []
    for death in annotation.items:
        read = _read(death) if isinstance(death, dict) else None
        if read is None:
            return None
        deaths.append(read)
    return deaths or None


def _read(death: dict[object, object]) -> dict[object, object] | None:
    queue = death.get("queue")
    reason = death.get("reason")
    count = death.get("count")
    time = death.get("first-time")
    exchange = death.get("exchange")
    keys = death.get("routing-keys")
    if not isinstance(count, ULong) or int(count) >= 1 << 63 or not _is_timestamp(time):
        return None
    if not isinstance(queue, str) or not isinstance(reason, str) or not isinstance(exchange, str):
        return None
    texts = _texts(keys.items) if isinstance(keys, Array) else None
    if texts is None:
        return None
    read: dict[object, object] = {
        Symbol("count"): int(count),
        Symbol("reason"): str(reason),
        Symbol("queue"): queue,
        Symbol("time"): time,
        Symbol("exchange"): exchange,
        Symbol("routing-keys"): texts,
    }
    ttl = death.get("ttl")
    if isinstance(ttl, UInt):
        read[Symbol("original-expiration")] = str(int(ttl))
    return read


def _is_timestamp(value: object) -> bool:
    return isinstance(value, Timestamp)


def _texts(items: object) -> list[object] | None:
    if not isinstance(items, list):
        return None
    texts: list[object] = []
    for item in items:
        if not isinstance(item, str):
            return None
        texts.append(item)
    return texts
