"""The first request to a broker, sent by the driver before a job starts.

A running query waits for an unreachable broker, for as long as the option `retryTimeout` says. A
mistyped address should fail sooner: the first contact fails within seconds.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from penstock.client import blocking
from penstock.client.errors import ClientError
from penstock.client.uri import Address, addresses_of
from penstock.spark.errors import PipelineError
from penstock.spark.http_client import client_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.spark.options import ReadOptions

# Where Spark notes in a checkpoint which micro-batches are done.
_COMMITS: Final = "commits"


class NoContact(PipelineError):
    """An AMQP address does not answer, or the login is refused."""


def check_source(options: ReadOptions) -> None:
    """Check that the broker answers, the login is accepted, and the named streams or queues
    exist.
    """
    client = client_for(options.access.at_first_contact())
    if options.queue is not None:
        assert options.owner is not None, "a queue is read under the name of an owner"
        path = client.path("leases", client.access.vhost, options.queue, options.owner)
        client.get_json(path)
        return
    options.subscription.resolve(client)


def check_amqp(uri: str | list[Address], seconds: float) -> None:
    """Log in and out again. Raises `NoContact` within about this many seconds."""
    try:
        addresses = [
            replace(address, connect_timeout_milliseconds=round(seconds * 1000))
            for address in addresses_of(uri)
        ]
        blocking.connect(addresses, timeout=seconds).close()
    except ClientError as error:
        raise NoContact(f"The broker cannot be reached over AMQP: {error}") from None


def has_committed(options: Mapping[str, str]) -> bool:
    """Whether a streaming query has finished a micro-batch before, by the checkpoint that the
    options name. True when that cannot be known, for example for a checkpoint on another file
    system.
    """
    given = {name.lower(): value for name, value in options.items()}
    location = given.get("checkpointlocation")
    if location is None:
        return True
    parts = urlsplit(location)
    if parts.scheme not in {"", "file"}:
        return True
    folder = Path(parts.path if parts.scheme else location)
    if not folder.is_dir():
        return True
    commits = folder / _COMMITS
    return commits.is_dir() and any(path.name.isdigit() for path in commits.iterdir())
