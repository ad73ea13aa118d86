"""Counts publisher confirms however a broker sends them: single, multiple, in any order."""

from bench import frames


class PublishRefusedError(Exception):
    """A publisher received a nack, or anything else that is not a confirm."""


class ConfirmLedger:
    """One per publishing lane. `count` is how many distinct publishes were confirmed."""

    def __init__(self) -> None:
        # Everything up to here is confirmed; the set holds what was confirmed out of order above.
        self._settled_to = 0
        self._above: set[int] = set()
        self._partial = b""

    @property
    def count(self) -> int:
        return self._settled_to + len(self._above)

    def feed(self, data: bytes) -> None:
        if self._partial:
            data = self._partial + data
        whole = len(data) - len(data) % frames.SETTLEMENT.size
        self._partial = data[whole:]
        for record in frames.SETTLEMENT.iter_unpack(data[:whole]):
            _, _, _, class_id, method_id, tag, bits, end = record
            if class_id != 60 or method_id != 80 or end != 0xCE:
                raise PublishRefusedError(f"not a confirm: {data[:200]!r}")
            if bits & 1:
                self._settle_to(tag)
            elif tag > self._settled_to:
                self._above.add(tag)
                self._close_gap()

    def _settle_to(self, tag: int) -> None:
        if tag <= self._settled_to:
            return
        self._settled_to = tag
        if self._above:
            self._above = {above for above in self._above if above > tag}
            self._close_gap()

    def _close_gap(self) -> None:
        while self._settled_to + 1 in self._above:
            self._settled_to += 1
            self._above.remove(self._settled_to)
