"""The speed of the audit: synthetic ledgers with planted faults, read and judged on Spark.

    python -m bench.audit                                  # runs of 100, and of single messages
    python -m bench.audit --events 30000000 --runs 1,100 --master 'local[2]' --json FILE

An event is a step of one message: enqueued, delivered, acknowledged. A record of a ledger describes
a run of them; single messages are the worst case, a record each. The time is from naming the
directory to the verdict, without starting Spark, best of the rounds. It ends with code 1 when the
verdict is not exactly what was planted.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from bench.synthetic_ledger import Fault, Traffic, write_server
from penstock.spark.jobs.audit import audit
from penstock.spark.jobs.ledger_reading import open_ledgers
from penstock.spark.jobs.verdict import Audit
from penstock.spark.session import spark_session

# The project's goal.
EVENTS_PER_SECOND_GOAL: Final = 1_000_000
QUEUES: Final = 4
EVENTS_PER_MESSAGE: Final = 3
# Positions of faults, far apart so that each makes a block dirty.
STEP: Final = 10_007
FAULTS: Final = (Fault.NEVER_DELIVERED, Fault.GIVEN_BACK, Fault.DELIVERED_TWICE, Fault.EXPIRED)


def planted(messages: int) -> dict[tuple[int, int], Fault]:
    count = min(100, messages // STEP)
    return {
        (index % QUEUES, (index + 1) * STEP): FAULTS[index % len(FAULTS)] for index in range(count)
    }


def is_exact(found: Audit, faults: dict[tuple[int, int], Fault]) -> bool:
    wanted = {fault: list(faults.values()).count(fault) for fault in FAULTS}
    return (
        found.total("still_queued"),
        found.total("duplicated_flagged"),
        found.total("duplicated_unflagged"),
        sum(sum(verdict.dropped.values()) for verdict in found.verdicts),
        found.total("lost"),
        found.total("phantom"),
    ) == (*[wanted[fault] for fault in FAULTS], 0, 0)


def measure(session: Any, folder: Path, events: int, run: int, rounds: int) -> dict[str, Any]:
    messages = events // EVENTS_PER_MESSAGE // QUEUES
    faults = planted(messages)
    traffic = Traffic(queues=QUEUES, messages=messages, run=run, faults=faults)
    told = write_server(folder, traffic)
    best = float("inf")
    exact = True
    for _ in range(rounds):
        began = time.monotonic()
        found = audit(open_ledgers(session, [folder]))
        best = min(best, time.monotonic() - began)
        exact = exact and is_exact(found, faults)
    octets = sum(path.stat().st_size for path in folder.rglob("*.led"))
    return {
        "run": run,
        "events": told,
        "records": found.records,
        "octets": octets,
        "blocks": found.blocks,
        "dirty_blocks": found.dirty_blocks,
        "seconds": round(best, 3),
        "events_per_second": round(told / best),
        "records_per_second": round(found.records / best),
        "faults": len(faults),
        "exact": exact,
        "reaches_goal": told / best >= EVENTS_PER_SECOND_GOAL,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.audit", description=__doc__)
    parser.add_argument("--events", type=int, default=30_000_000)
    parser.add_argument("--runs", default="100,1", help="messages per record, comma-separated")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    session = spark_session(
        chosen.master, "bench audit", spark__sql__shuffle__partitions="4", spark__log__level="ERROR"
    )
    samples = []
    for run in (int(text) for text in chosen.runs.split(",")):
        folder = Path(tempfile.mkdtemp(prefix="penstock-audit-"))
        try:
            sample = measure(session, folder, chosen.events, run, chosen.rounds)
        finally:
            shutil.rmtree(folder)
        samples.append(sample)
        print(
            f"runs of {run}: {sample['events']:,} events in {sample['records']:,} records, "
            f"{sample['seconds']:.1f} s, {sample['events_per_second']:,} events/s; "
            f"{sample['dirty_blocks']:,} of {sample['blocks']:,} blocks dirty; "
            f"{'exact' if sample['exact'] else 'WRONG'}"
        )
    session.stop()
    if chosen.json is not None:
        chosen.json.write_text(json.dumps({"audit": samples}, indent=1), encoding="utf-8")
    return 0 if all(sample["exact"] for sample in samples) else 1


if __name__ == "__main__":
    sys.exit(main())
