"""Messages as rows that can be staged, for callers that have messages and not a row block."""

from penstock.broker.message import Message
from penstock.formats.stage_block import BLOCK_BYTES_MAX, BLOCK_ROWS_MAX, StagedRows
from penstock.formats.stream_payload import encode_payload


def rows_of(messages: list[Message]) -> StagedRows:
    rows = StagedRows()
    payloads: list[bytes] = []
    size = 0
    for message in messages:
        payload = encode_payload(
            message.address.octets(), message.properties.encoded(), message.body
        )
        payloads.append(payload)
        size += len(payload)
        if len(payloads) == BLOCK_ROWS_MAX or size >= BLOCK_BYTES_MAX:
            rows.add(len(payloads), memoryview(b"".join(payloads)))
            payloads = []
            size = 0
    if payloads:
        rows.add(len(payloads), memoryview(b"".join(payloads)))
    return rows
