"""Whether a chaos run has kept every promise: nothing here knows servers, only what clients were told."""

from dataclasses import dataclass

from penstock.cli.chaos_steps.ledger import CAME_BACK, TWICE, ChaosLedger


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the verdict."""

    what: str
    # Empty when it holds.
    fault: str


def checks_of(
    ledger: ChaosLedger,
    kept: ChaosLedger,
    copies: dict[str, list[bytes]],
    stalls: list[str],
    left_over: int,
) -> list[Check]:
    """`kept` is of the queue that nobody has read, and `copies` are what each server had of it as the
    root; `left_over` messages are in the queues that were to be empty.
    """
    first = next(iter(copies.values()))
    here = set(first)
    repeated = len(first) - len(here)
    is_equal = all(copy == first for copy in copies.values())
    return [
        Check(
            "nothing confirmed is lost",
            _some(ledger.lost() | (kept.confirmed - here), "confirmed messages are lost"),
        ),
        Check("nothing completed comes back", _lies(ledger, CAME_BACK)),
        Check(
            "nothing arrives twice unflagged",
            _lies(ledger, TWICE) or (f"{repeated} messages are there twice" if repeated else ""),
        ),
        Check(
            "nothing arrives that was not published",
            _some(
                ledger.strangers() | (here - kept.confirmed - kept.in_doubt), "messages are unknown"
            ),
        ),
        Check("no stall", _first(stalls)),
        Check("queues drain", f"{left_over} messages are left" if left_over else ""),
        Check("replicas are equal", "" if is_equal else _differences(copies)),
    ]


def _some(bodies: set[bytes], what: str) -> str:
    return f"{len(bodies)} {what}, {min(bodies)!r} among them" if bodies else ""


def _lies(ledger: ChaosLedger, kind: str) -> str:
    return _first([lie for lie in ledger.lies if kind in lie])


def _first(faults: list[str]) -> str:
    if len(faults) < 2:
        return faults[0] if faults else ""
    return f"{faults[0]}, and {len(faults) - 1} more"


def _differences(copies: dict[str, list[bytes]]) -> str:
    return ", ".join(f"{name} has {len(bodies)}" for name, bodies in copies.items())
