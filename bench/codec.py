"""The codec beside pamqp, in one process: `python -m bench.codec [--json]`.

CPU time, best of several, since slower runs were disturbed by other processes.
`penstock` is what the PYTHONPATH or the environment has of it, else `src`, which is the pure build.

The codecs differ in what they are for. Penstock's server passes a publish on undecoded (the route
is looked up by the method's bytes), which is the row "receive"; the row "decode" also decodes the
method. Neither decodes the properties, which pamqp always does: here one octet, the delivery mode.
On the other hand Penstock's rows include every check that a server makes of a frame, pamqp's none.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

from rich.console import Console
from rich.table import Table

from bench import frames

REPEATS = 7
LOOPS = 20_000
BODY = b"x" * 100
HEADERS: dict[str, object] = {
    "x-source": "sensor-17",
    "attempt": 3,
    "valid": True,
    "ratio": 0.25,
    "nested": {"a": 1, "b": "two"},
    "list": [1, 2, 3],
}

# What to call, and how many messages one call is.
Work = tuple[Callable[[], object], int]


def nanoseconds(work: Work) -> float:
    """CPU nanoseconds for one message."""
    call, messages = work
    loops = max(1, LOOPS // messages)
    best = float("inf")
    for _ in range(REPEATS):
        started = time.process_time_ns()
        for _ in range(loops):
            call()
        best = min(best, (time.process_time_ns() - started) / (loops * messages))
    return best


def pamqp_works() -> dict[str, Work]:
    from pamqp import body, commands, common, decode, encode, frame, header

    publish = frames.publish("", "orders", BODY, persistent=False)
    headers = cast(common.FieldTable, HEADERS)
    table = encode.field_table(headers)
    properties = commands.Basic.Properties(delivery_mode=1)

    def decode_publish() -> None:
        at = 0
        while at < len(publish):
            used, _, _ = frame.unmarshal(publish[at:])
            at += used

    def encode_deliver() -> bytes:
        deliver = commands.Basic.Deliver("consumer-1", 17, False, "", "orders")
        content = header.ContentHeader(0, len(BODY), properties)
        return b"".join(
            (
                frame.marshal(deliver, 1),
                frame.marshal(content, 1),
                frame.marshal(body.ContentBody(BODY), 1),
            )
        )

    return {
        "decode a publish (3 frames)": (decode_publish, 1),
        "encode a deliver (3 frames)": (encode_deliver, 1),
        "decode a field table": (lambda: decode.field_table(table), 1),
        "encode a field table": (lambda: encode.field_table(headers), 1),
    }


def codec_table(columns: dict[str, dict[str, float]]) -> Table:
    table = Table(title="Codec, CPU nanoseconds for one message (best of several)")
    table.add_column("work")
    for name in columns:
        table.add_column(name, justify="right")
    table.add_column("pamqp / penstock", justify="right")
    penstock, pamqp = columns["penstock"], columns["pamqp"]
    for work, cost in penstock.items():
        beside = pamqp.get(work)
        table.add_row(
            work,
            f"{cost:,.0f}",
            f"{beside:,.0f}" if beside else "",
            f"{beside / cost:.1f}" if beside else "",
        )
    return table


def main() -> None:
    # Last: a compiled copy on the PYTHONPATH goes before the source.
    sys.path.append(str(Path(__file__).resolve().parent.parent / "src"))
    from bench.codec_of_penstock import penstock_works
    from penstock.builds import build_mode

    works = {"penstock": penstock_works(), "pamqp": pamqp_works()}
    columns = {
        name: {work: nanoseconds(run) for work, run in of_side.items()}
        for name, of_side in works.items()
    }
    if "--json" in sys.argv[1:]:
        print(json.dumps({"build": build_mode(), "nanoseconds": columns}))
        return
    console = Console(highlight=False)
    console.print(f"penstock build: {build_mode()}")
    console.print(codec_table(columns))


if __name__ == "__main__":
    main()
