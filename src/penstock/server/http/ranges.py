"""The Range header: one range of octets out of a file (RFC 9110, section 14)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from penstock.server.http.problems import Problem

UNSATISFIABLE: Final = 416
# As many digits as a 63-bit number has.
_FORM: Final = re.compile(r"bytes=([0-9]{0,19})-([0-9]{0,19})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Extent:
    """The part of a file that is sent."""

    start: int
    count: int
    is_partial: bool

    def content_range(self, size: int) -> str:
        return f"bytes {self.start}-{self.start + self.count - 1}/{size}"


def extent_of(header: str | None, size: int) -> Extent:
    """Raises a `Problem` with status 416 for a range that cannot be served."""
    if header is None:
        return Extent(0, size, is_partial=False)
    form = _FORM.fullmatch(header.strip().lower())
    if form is None or form.group(1) == form.group(2) == "":
        raise _unsatisfiable(
            size, f"the Range header {header[:60]!r} is not a single range of bytes"
        )
    first, last = form.group(1), form.group(2)
    if not first:
        count = min(int(last), size)
        start = size - count
    else:
        start = int(first)
        count = (min(int(last) + 1, size) if last else size) - start
    if count <= 0:
        raise _unsatisfiable(size, f"the range {header[:60]!r} is outside the file")
    return Extent(start, count, is_partial=True)


def _unsatisfiable(size: int, reason: str) -> Problem:
    return Problem(
        UNSATISFIABLE,
        reason,
        "Request one range, bytes=FIRST-LAST, within the current size; the last segment grows "
        "when more messages become durable.",
        facts={"size": size},
        headers={"Content-Range": f"bytes */{size}"},
    )
