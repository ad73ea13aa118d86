"""Messages as a person sees them: a line of facts, properties, the body."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.cli.administering.figures import duration_text, size_text
from penstock.cli.administering.tables import cut, shown, visible

if TYPE_CHECKING:
    from penstock.cli.administering.tables import Row


def message_lines(row: Row, width: int) -> list[str]:
    facts = []
    if "position" in row:
        facts.append(f"#{row['position']}")
    facts.append(f"exchange {row.get('exchange') or '(default)'}")
    facts.append(f"key {shown(row.get('routing_key'))}")
    facts.append(size_text(row.get("payload_bytes")))
    if row.get("redelivered"):
        facts.append("redelivered")
    if row.get("age_ms") is not None:
        facts.append(f"age {duration_text(row['age_ms'])}")
    lines = [visible(", ".join(facts))]
    properties = row.get("properties")
    if isinstance(properties, dict) and properties:
        lines.append("  " + ", ".join(f"{key}={shown(properties[key])}" for key in properties))
    if row.get("payload") not in {None, ""}:
        encoding = row.get("payload_encoding")
        text = shown(row["payload"])
        lines.append(f"  {text}" if encoding != "base64" else f"  (base64) {text}")
    return [cut(line, width) for line in lines] if width else lines
