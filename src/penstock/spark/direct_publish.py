"""Publishing directly over AMQP with confirms: at least once. A task that is tried again publishes
again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from penstock.client import blocking
from penstock.client.errors import ClientError, PublishReturned, UriInvalid
from penstock.client.uri import PLAIN_PORT, TLS_PORT, Address, Tls, decode_uris
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
    from penstock.spark.address import BrokerAccess, TlsFiles
    from penstock.spark.write_options import WriteOptions

# Messages that are passed to the socket at once; the window is counted in these.
STEP_ROWS: Final = 2_000
# Octets of a frame beside its payload.
_FRAME_OVERHEAD: Final = 8


def amqp_addresses(options: WriteOptions) -> list[Address]:
    """As given, or the default port on the hosts of the HTTP addresses, with TLS where these have it.
    What the addresses do not say about the login and TLS, the options do.
    """
    access = options.access
    if options.amqp_uri is None:
        addresses = [
            Address(
                host=one.host,
                port=TLS_PORT if one.secure else PLAIN_PORT,
                vhost=access.vhost,
                tls=Tls() if one.secure else None,
            )
            for one in access.addresses
        ]
        has_login = False
    else:
        try:
            addresses = decode_uris(options.amqp_uri)
        except UriInvalid as error:
            raise OptionError("amqpUri", str(error), "Use amqp[s]://HOST:PORT/VHOST.") from None
        has_login = urlsplit(options.amqp_uri).username is not None
    return [_completed(address, access, has_login) for address in addresses]


def _completed(address: Address, access: BrokerAccess, has_login: bool) -> Address:
    if not has_login:
        address = replace(
            address,
            user=resolve_secret("user", access.user),
            password=resolve_secret("password", access.password),
        )
    return address if address.tls is None else replace(address, tls=_tls(address.tls, access.tls))


def _tls(written: Tls, files: TlsFiles) -> Tls:
    return replace(
        written,
        cacertfile=written.cacertfile or files.ca_file,
        certfile=written.certfile or files.certificate_file,
        keyfile=written.keyfile or files.key_file,
        verify_peer=written.verify_peer and files.verify,
    )


def publish_rows(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> int:
    """On an executor. Returns when everything is confirmed."""
    settle_worker()
    count = 0
    try:
        with (
            blocking.connect(amqp_addresses(options)) as connection,
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
    """Raises with the number of messages that were returned."""
    try:
        channel.wait_for_confirms()
    except PublishReturned as error:
        count = 1 + len(channel.take_returned())
        raise PipelineError(
            f"{count} messages were not routed to any queue, for example: {error}"
        ) from None
