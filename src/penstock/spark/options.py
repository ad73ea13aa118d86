"""The options of a read: all of them named here, checked together, before any job starts."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.spark.address import FIRST_CONTACT_SECONDS, BrokerAccess, TlsFiles, read_access
from penstock.spark.broker_streams import Subscription
from penstock.spark.columns import chosen_columns
from penstock.spark.errors import OptionError
from penstock.spark.offset_choice import EARLIEST, LATEST, OffsetChoice, read_choice, read_time
from penstock.spark.row_filter import RowFilter, read_filter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Options for the connection to the broker; writers have them too.
ACCESS_OPTIONS: Final = (
    "uri",
    "user",
    "password",
    "tlsCaFile",
    "tlsCertFile",
    "tlsKeyFile",
    "tlsVerify",
    "retryTimeout",
    "firstContactTimeout",
)
_STREAM_OPTIONS: Final = (
    "stream",
    "streamPattern",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "minPartitions",
    "rowsPerPartition",
    "failOnDataLoss",
    "cursor",
    "filterPushdown",
)
_QUEUE_OPTIONS: Final = ("queue", "owner", "leaseTimeout")
_TRIGGER_OPTIONS: Final = ("maxMessagesPerTrigger", "maxBytesPerTrigger")
READ_OPTIONS: Final = (
    *ACCESS_OPTIONS,
    *_STREAM_OPTIONS,
    *_QUEUE_OPTIONS,
    *_TRIGGER_OPTIONS,
    "columns",
    "filter",
    "verify",
)

# A broker restarts within seconds; a machine within a minute.
RETRY_SECONDS: Final = 60.0
# Half a second of work for one core: enough to pay for a task, of which Spark's part is some tens
# of milliseconds in either process.
ROWS_PER_PARTITION: Final = 500_000
# Units of sizes are powers of 1024, as in Spark's own settings.
_SIZE: Final = re.compile(r"(\d{1,15})\s*(?:([kmgt])(?:i?b)?|b)?", re.ASCII)
_SIZE_BITS: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*(ms|s|m|h|d)?", re.ASCII)
_DURATION_SECONDS: Final = {"ms": 0.001, None: 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The settings of a reader. Sent to executors."""

    access: BrokerAccess
    columns: tuple[str, ...]
    subscription: Subscription
    queue: str | None = None
    owner: str | None = None
    lease_seconds: float = 0.0
    # None is the default, which differs between batch and streaming.
    starting: OffsetChoice | None = None
    ending: OffsetChoice | None = None
    messages_max: int | None = None
    bytes_max: int | None = None
    partitions_min: int = 1
    rows_per_partition: int = ROWS_PER_PARTITION
    fail_on_loss: bool = True
    row_filter: RowFilter | None = None
    verify: bool = False
    cursor: str | None = None
    pushes_filters: bool = False

    def for_batch(self) -> ReadOptions:
        """Raises `OptionError` for options that make no sense in a batch."""
        if self.queue is not None:
            raise OptionError(
                "queue",
                "a queue cannot be read in a batch, which does not report when its messages are "
                "processed",
                "Use readStream, with .trigger(availableNow=True) to read the present messages "
                "and end.",
            )
        if self.messages_max is not None or self.bytes_max is not None:
            raise OptionError(
                "maxMessagesPerTrigger" if self.messages_max is not None else "maxBytesPerTrigger",
                "it applies to streaming queries only",
                "Limit a batch with endingOffsets or endingTimestamp.",
            )
        if self.cursor is not None:
            raise OptionError(
                "cursor", "a batch does not move cursors", "Use readStream, or omit it."
            )
        return self

    def for_streaming(self) -> ReadOptions:
        """Raises `OptionError` for options that make no sense in a stream."""
        if self.ending is not None:
            raise OptionError(
                self.ending.option,
                "it applies to batches only",
                "Use read instead of readStream, or .trigger(availableNow=True).",
            )
        if self.pushes_filters:
            raise OptionError(
                "filterPushdown",
                "Spark pushes filters down in batches only",
                "Use the option 'filter'.",
            )
        return self

    def starting_or(self, word: str) -> OffsetChoice:
        return self.starting or OffsetChoice("startingOffsets", word=word)

    def ending_or_latest(self) -> OffsetChoice:
        return self.ending or OffsetChoice("endingOffsets", word=LATEST)


class UserOptions:
    """Options as the user gave them; names are compared without regard to case, as Spark does."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        self._names = list(options)

    def check_names(self, known: Iterable[str]) -> None:
        by_lower = {name.lower(): name for name in known}
        for name in self._names:
            if name.lower() not in by_lower:
                near = difflib.get_close_matches(name.lower(), by_lower, 1)
                remedy = f"Available: {', '.join(by_lower.values())}."
                if near:
                    remedy = f"Did you mean '{by_lower[near[0]]}'? {remedy}"
                raise OptionError(name, "unknown option", remedy)

    def text(self, name: str) -> str | None:
        value = self._values.get(name.lower())
        if value is not None and not value.strip():
            raise OptionError(name, "it is empty", "Give it a value or omit it.")
        return value

    def number(self, name: str) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if not (text.isascii() and text.strip().isdigit() and int(text) > 0):
            raise OptionError(name, f"{text!r} is not a positive number", "Use digits only.")
        return int(text)

    def size(self, name: str) -> int | None:
        """Bytes, in digits or with a unit as Spark writes them: 100m are 100 MiB."""
        text = self.text(name)
        if text is None:
            return None
        form = _SIZE.fullmatch(text.strip().lower())
        if form is None or int(form.group(1)) == 0:
            raise OptionError(
                name,
                f"{text!r} is not a valid size",
                "Use a number of bytes, or a number with a unit such as 512k, 100m or 1g.",
            )
        return int(form.group(1)) << _SIZE_BITS[form.group(2) or ""]

    def truth(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.strip().lower() not in {"true", "false"}:
            raise OptionError(name, f"{text!r} is neither true nor false", "Use true or false.")
        return text.strip().lower() == "true"

    def seconds(self, name: str, default: float) -> float:
        text = self.text(name)
        if text is None:
            return default
        form = _DURATION.fullmatch(text.strip())
        if form is None:
            raise OptionError(
                name,
                f"{text!r} is not a valid duration",
                "Use seconds, or a duration such as 90s, 15m or 2h.",
            )
        return float(form.group(1)) * _DURATION_SECONDS[form.group(2)]

    def exclude(self, one: str, others: Iterable[str], why: str) -> None:
        """If the option `one` is set, none of the others may be."""
        for other in others:
            if other.lower() in self._values:
                raise OptionError(
                    other, f"it cannot be combined with '{one}': {why}", "Omit one of the two."
                )


def access_of(given: UserOptions) -> BrokerAccess:
    """Also for writers. Raises `OptionError`."""
    uri = given.text("uri")
    if uri is None:
        raise OptionError(
            "uri", "it is missing", "Use http://HOST:15672/VHOST, the broker's HTTP port."
        )
    tls = TlsFiles(
        given.text("tlsCaFile"),
        given.text("tlsCertFile"),
        given.text("tlsKeyFile"),
        given.truth("tlsVerify", True),
    )
    return read_access(
        uri,
        given.text("user"),
        given.text("password"),
        tls,
        given.seconds("retryTimeout", RETRY_SECONDS),
        given.seconds("firstContactTimeout", FIRST_CONTACT_SECONDS),
    )


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """Raises `OptionError`; does not contact the broker."""
    given = UserOptions(options)
    if given.truth("asyncProgressTrackingEnabled", False):
        raise OptionError(
            "asyncProgressTrackingEnabled",
            "in this mode Spark requests more before the previous batch is committed",
            "Omit it.",
        )
    given.check_names(READ_OPTIONS)
    queue = given.text("queue")
    if queue is not None:
        given.exclude("queue", _STREAM_OPTIONS, "a queue has neither offsets nor history")
        if given.text("owner") is None:
            raise OptionError(
                "owner",
                "it is missing; a restarted query finds its leases by this name",
                "Give the query a unique name that stays the same at every start.",
            )
    else:
        for name in ("owner", "leaseTimeout"):
            if given.text(name) is not None:
                raise OptionError(name, "it applies to queues only", "Set the option 'queue'.")
    return ReadOptions(
        access_of(given),
        chosen_columns(given.text("columns"), queue is not None),
        _subscription(given),
        queue,
        given.text("owner"),
        given.seconds("leaseTimeout", 0.0),
        _bound(given, "startingOffsets", "startingTimestamp"),
        _bound(given, "endingOffsets", "endingTimestamp"),
        given.number("maxMessagesPerTrigger"),
        given.size("maxBytesPerTrigger"),
        given.number("minPartitions") or 1,
        given.number("rowsPerPartition") or ROWS_PER_PARTITION,
        given.truth("failOnDataLoss", True),
        read_filter(given.text("filter")),
        given.truth("verify", False),
        given.text("cursor"),
        given.truth("filterPushdown", False),
    )


def _subscription(given: UserOptions) -> Subscription:
    names = given.text("stream")
    pattern = given.text("streamPattern")
    if names is not None and pattern is not None:
        raise OptionError(
            "streamPattern", "it cannot be combined with 'stream'", "Omit one of the two."
        )
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise OptionError(
                "streamPattern",
                f"it is not a valid regular expression: {error}",
                "It must match a name.",
            ) from None
        return Subscription(pattern=pattern)
    if names is not None:
        parts = tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
        return Subscription(parts)
    if given.text("queue") is None:
        raise OptionError(
            "stream",
            "no stream or queue is given",
            "Set 'stream' to one name or to several, comma-separated; or set 'streamPattern'; or "
            "set "
            "'queue' to the name of a classic queue.",
        )
    return Subscription()


def _bound(given: UserOptions, by_offset: str, by_time: str) -> OffsetChoice | None:
    offsets = given.text(by_offset)
    moment = given.text(by_time)
    if offsets is not None and moment is not None:
        raise OptionError(
            by_time, f"it cannot be combined with '{by_offset}'", "Omit one of the two."
        )
    if offsets is not None:
        choice = read_choice(by_offset, offsets)
        if by_offset == "endingOffsets" and choice.word == EARLIEST:
            raise OptionError(
                by_offset, "a read that ends at the earliest offset is empty", "Use latest."
            )
        return choice
    return None if moment is None else read_time(by_time, moment)
