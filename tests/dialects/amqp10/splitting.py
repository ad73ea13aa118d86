"""An AMQP 1.0 message in two, for tests that do not care where the cut is."""

from penstock.dialects.amqp10.messages.message_head import divide_message


def split_message(payload: bytes) -> tuple[bytes, bytes]:
    """Head and body, as `divide_message`."""
    head, body, _ = divide_message(payload)
    return head, body
