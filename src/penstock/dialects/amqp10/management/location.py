"""Where a request goes: percent-encoded segments of a path, and a query.

Letters outside ASCII are accepted as well: some clients leave them unencoded.
"""

import re
from typing import Final
from urllib.parse import parse_qsl, unquote_to_bytes

from penstock.dialects.amqp10.management.refusals import bad_request

# `src`, `dstq` or `dste`, `key`, and some to spare.
QUERY_FIELDS_MAX: Final = 16

_ILLEGAL: Final = re.compile(r'[\x00-\x20"#<>\[\\\]^`{|}\x7f]|%(?![0-9A-Fa-f]{2})')
# An empty `args` is a binding without arguments, else it tells bindings apart by a hash.
_BINDING: Final = re.compile(r"src=([^;=]+);dst([eq])=([^;=]+);key=([^;=]*);args=([0-9A-Za-z_-]*)")


class Location:
    """A path cut at its slashes, not yet decoded, and the query by name."""

    def __init__(self, segments: list[str], query: dict[str, str]) -> None:
        self.segments: list[str] = segments
        self.query: dict[str, str] = query


class BindingLocation:
    """What names one binding: the last segment of `/bindings/...`, decoded."""

    def __init__(
        self, source: str, to_queue: bool, destination: str, key: str, arguments_hash: str
    ) -> None:
        self.source: str = source
        self.to_queue: bool = to_queue
        self.destination: str = destination
        self.key: str = key
        self.arguments_hash: str = arguments_hash


def read_location(to: str) -> Location:
    if not to.startswith("/") or _ILLEGAL.search(to) is not None:
        raise bad_request(f"failed to normalize URI '{to}': invalid_uri \"{to}\"")
    path, _, query = to.partition("?")
    return Location(path[1:].split("/"), _read_query(query) if query else {})


def decode_segment(segment: str) -> str:
    if "%" not in segment:
        return segment
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise bad_request(f"'{segment}' is not valid UTF-8 after percent-decoding") from None


def read_binding_location(segment: str) -> BindingLocation:
    match = _BINDING.fullmatch(segment)
    if match is None:
        raise bad_request(f"bad binding path segment '{segment}'")
    return BindingLocation(
        decode_segment(match[1]),
        match[2] == "q",
        decode_segment(match[3]),
        decode_segment(match[4]),
        match[5],
    )


def _read_query(query: str) -> dict[str, str]:
    """As forms are encoded: a plus is a blank."""
    try:
        return dict(
            parse_qsl(
                query,
                keep_blank_values=True,
                strict_parsing=True,
                errors="strict",
                max_num_fields=QUERY_FIELDS_MAX,
            )
        )
    except ValueError as error:
        raise bad_request(f"failed to dissect query '{query}': {error}") from None
