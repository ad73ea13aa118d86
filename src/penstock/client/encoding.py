"""A publish as encoded frames, for callers that send many alike."""

from penstock.formats.amqp091_frames import FRAME_OVERHEAD, encode_content, encode_split_content
from penstock.wire.amqp091.content import BasicProperties, encode_header
from penstock.wire.amqp091.methods_generated import BasicPublish


def encode_publish(
    channel: int,
    exchange: str,
    routing_key: str,
    body: bytes,
    frame_max: int,
    properties: BasicProperties | None = None,
    mandatory: bool = False,
) -> bytes:
    """For `Conversation.publish_encoded`; `frame_max` is the negotiated value, 0 for no limit."""
    method = BasicPublish(exchange, routing_key, mandatory).encode()
    header = encode_header(len(body), properties or BasicProperties())
    if frame_max and len(body) + FRAME_OVERHEAD > frame_max:
        return b"".join(encode_split_content(channel, method, header, body, frame_max))
    return encode_content(channel, method, header, body)
