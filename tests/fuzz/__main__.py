"""`python -m tests.fuzz`: millions of odd conversations with a real server, over every wire.

A server is started with a data directory; worker processes speak AMQP 0-9-1, AMQP 1.0 and HTTP to
it, valid words in any order and damaged ones. It passes when every answer is one that the protocol
knows and that does not blame the server, nothing alarming is in the log, memory has stayed flat,
and the server stops in order.

    python -m tests.fuzz --conversations 2000000 --record fuzz.json
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from penstock.builds import build_mode
from tests.fuzz.target import Target
from tests.fuzz.worker import WIRES, Report, work

# Conversations between two looks at memory and log, over all workers.
ROUND = 40_000
# Memory may move by this much around what it was after the first rounds: allocators do not give
# everything back, and caches fill.
GROWTH_SHARE_MAX = 0.15
GROWTH_BYTES_MAX = 30 * 1024 * 1024
WARM_ROUNDS = 5
# Of a log that tells of defects.
LINES_SHOWN = 50


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--conversations", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--record", type=Path, help="write what was seen to this JSON file")
    parser.add_argument(
        "--wires", nargs="+", choices=WIRES, default=list(WIRES), help="what is spoken"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-fuzz-") as folder:
        record = fuzz(
            Path(folder),
            arguments.conversations,
            arguments.seed,
            arguments.workers,
            tuple(arguments.wires),
        )
    record["command"] = " ".join(["python -m tests.fuzz", *sys.argv[1:]])
    if arguments.record is not None:
        arguments.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(
        json.dumps(
            {name: record[name] for name in ("conversations", "answers", "verdict")}, indent=1
        )
    )
    return 0 if record["verdict"] == "passed" else 1


def fuzz(
    folder: Path, count: int, seed: int, workers: int, wires: tuple[str, ...] = WIRES
) -> dict[str, object]:
    target = Target(folder)
    total = Report()
    resident: list[int] = []
    began = time.monotonic()
    try:
        swept = talk(target, count, seed, workers, wires, total, resident)
        is_alive = target.process.poll() is None
        cpu_seconds = target.cpu_seconds() if is_alive else 0.0
    finally:
        exit_code = target.stop()
    problems = list(total.wrong)
    if not is_alive:
        problems.append("the server ended by itself")
    if exit_code != 0:
        problems.append(f"the server's exit code is {exit_code}")
    problems += [f"log: {line}" for line in target.alarming_lines()[:LINES_SHOWN]]
    problems += grown(resident)
    return {
        "build": build_mode(),
        "seed": seed,
        "seconds": round(time.monotonic() - began),
        "server_cpu_seconds": round(cpu_seconds),
        "conversations": dict(total.conversations),
        "answers": dict(total.answers.most_common()),
        "queues_swept": swept,
        "resident_megabytes": [size >> 20 for size in resident],
        "log_bytes": target.log_bytes(),
        "problems": problems,
        "verdict": "failed" if problems else "passed",
    }


def talk(
    target: Target,
    count: int,
    seed: int,
    workers: int,
    wires: tuple[str, ...],
    total: Report,
    resident: list[int],
) -> int:
    """All conversations, a round at a time; returns how many queues were swept away."""
    swept = 0
    rounds = max(1, count // ROUND)
    began = time.monotonic()
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for number in range(rounds):
            jobs = [
                pool.submit(
                    work,
                    (seed << 40) + (number << 8) + worker,
                    count // rounds // workers,
                    target.amqp_port,
                    target.http_port,
                    wires,
                )
                for worker in range(workers)
            ]
            for job in jobs:
                add(total, job.result())
            if target.process.poll() is not None:
                break
            swept += target.sweep()
            resident.append(target.resident_bytes())
            done = sum(total.conversations.values())
            print(
                f"{done:,} conversations, {done / (time.monotonic() - began):,.0f}/s, "
                f"resident {resident[-1] >> 20} MB, {len(total.wrong)} wrong",
                file=sys.stderr,
                flush=True,
            )
            if total.wrong:
                break
    return swept


def add(total: Report, part: Report) -> None:
    total.conversations += Counter(part.conversations)
    total.answers += Counter(part.answers)
    total.wrong += part.wrong


def grown(resident: list[int]) -> list[str]:
    """Whether memory is higher at the end than when the server was warm."""
    if len(resident) <= 2 * WARM_ROUNDS:
        return []
    warm = max(resident[:WARM_ROUNDS])
    late = min(resident[-WARM_ROUNDS:])
    if late > warm * (1 + GROWTH_SHARE_MAX) + GROWTH_BYTES_MAX:
        return [f"memory grew from {warm >> 20} to {late >> 20} MB"]
    return []


if __name__ == "__main__":
    sys.exit(main())
