"""Faults planted into ledgers that real servers have written."""

from __future__ import annotations

from pathlib import Path

from penstock.formats import ledger_records as form


def without_inherited(data: Path, queue: str, count: int) -> None:
    """As if the last root of a ledger, if there is one, had not inherited some messages: the last
    ones of the first run of a queue.
    """
    path = max((data / "ledger").glob(f"*{form.SUFFIX}"))
    octets = bytearray(path.read_bytes())
    names: set[int] = set()
    longest = 0
    chosen = -1
    at = form.RECORD_SIZE
    while at < len(octets):
        _, event, _, _, name, _, size, _ = form.RECORD.unpack_from(octets, at)
        if event == form.NAME:
            text = octets[at + form.RECORD_SIZE :][:size].decode()
            names = names | {name} if text.endswith(f"\0{queue}") else names - {name}
            at += -(-size // form.RECORD_SIZE) * form.RECORD_SIZE
        elif event == form.RESTORED and name in names and size > longest:
            longest, chosen = size, at
        at += form.RECORD_SIZE
    if chosen < 0:
        return
    fields = list(form.RECORD.unpack_from(octets, chosen))
    fields[6] -= count
    form.RECORD.pack_into(octets, chosen, *fields)
    path.write_bytes(octets)
