"""Publishing directly over AMQP with confirms: at least once. A task that is tried again publishes
again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from penstock.client import blocking
from penstock.client.errors import ClientError, PublishReturned
from penstock.client.uri import PLAIN_PORT
from penstock.spark.address import resolve_secret
from penstock.spark.errors import OptionError, PipelineError
from penstock.spark.octet_pieces import sizes_of
from penstock.spark.rows_encoding import encode_rows
from penstock.spark.staging import gather
from penstock.spark.worker_memory import settle_worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from penstock.client.blocking_channel import BlockingChannel
    from penstock.spark.write_options import WriteOptions

# Messages that are handed to the socket at once; the window counts in these.
STEP_ROWS: Final = 2_000
# Octets of a frame beside its payload.
_FRAME_OVERHEAD: Final = 8


def amqp_address(options: WriteOptions) -> str:
    """As given, or the default port on the hosts of the HTTP addresses."""
    if options.amqp_uri is not None:
        return options.amqp_uri
    access = options.access
    if any(address.secure for address in access.addresses):
        raise OptionError(
            "amqpUri",
            "it is missing; with deduplicate=false and TLS the broker's AMQP address must be given",
            "Use amqps://HOST:5671/VHOST.",
        )
    user = quote(resolve_secret("user", access.user), safe="")
    password = quote(resolve_secret("password", access.password), safe="")
    host = access.addresses[0].host
    host = f"[{host}]" if ":" in host else host
    return f"amqp://{user}:{password}@{host}:{PLAIN_PORT}/{quote(access.vhost, safe='')}"


def publish_rows(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> int:
    """On an executor. Returns when everything is confirmed."""
    settle_worker()
    count = 0
    try:
        with (
            blocking.connect(amqp_address(options)) as connection,
            connection.channel() as channel,
        ):
            channel.select_confirms(options.window)
            room = connection.frame_max - _FRAME_OVERHEAD
            step = min(STEP_ROWS, options.window)
            for gathered in gather(batches):
                rows = encode_rows(gathered, options.exchange, options.routing_key)
                if connection.frame_max and sizes_of(rows.body).max() > room:
                    raise PipelineError(
                        f"a message's body is larger than a frame of {connection.frame_max} "
                        "bytes; omit deduplicate=false"
                    )
                frames, ends = rows.frames(channel.number, options.mandatory)
                for first in range(0, len(rows), step):
                    last = min(first + step, len(rows))
                    channel.publish_encoded(bytes(frames[ends[first] : ends[last]]), last - first)
                count += len(rows)
            _wait(channel)
    except ClientError as error:
        raise PipelineError(f"publishing directly failed: {error}") from None
    return count


def _wait(channel: BlockingChannel) -> None:
    """Raises with the number of messages that came back."""
    try:
        channel.wait_for_confirms()
    except PublishReturned as error:
        count = 1 + len(channel.take_returned())
        raise PipelineError(
            f"{count} messages were not routed to any queue, for example: {error}"
        ) from None
