"""The drawings of the state tables are those that the tables give.

`python -m tests.test_docs_states` writes them anew after a table has changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TypeVar

import pytest

from penstock.ha import message_states
from penstock.wire.amqp091 import states as amqp091
from penstock.wire.amqp091.methods_generated import NAMES as METHODS
from penstock.wire.amqp10 import performatives_generated as performatives
from penstock.wire.amqp10 import states as amqp10

PAGE = Path(__file__).resolve().parent.parent / "docs" / "design" / "states.md"
DRAWING = re.compile(r"^<!-- ([^\n]+) -->\n```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)

State = TypeVar("State", bound=Enum)
# From which state, to which state, with what.
Row = tuple[str, str, str]


def rows(
    table: Mapping[tuple[State, int], State], verb: str, names: Mapping[int, str]
) -> list[Row]:
    return [
        (source.name, target.name, f"{verb} {names[code]}")
        for (source, code), target in table.items()
    ]


def message_rows() -> list[Row]:
    return [
        (source.name, target.name, event.value)
        for (source, event), target in message_states.STATES.items()
    ]


def amqp10_rows(
    received: Mapping[tuple[State, int], State], sent: Mapping[tuple[State, int], State]
) -> list[Row]:
    names = {amqp10.PROTOCOL: "protocol header", **performatives.NAMES}
    return rows(received, "receive", names) + rows(sent, "send", names)


TABLES = {
    "AMQP 0-9-1 connection": rows(amqp091.RECEIVED, "receive", METHODS)
    + rows(amqp091.SENT, "send", METHODS),
    "AMQP 1.0 SASL": amqp10_rows(amqp10.SASL_RECEIVED, amqp10.SASL_SENT),
    "AMQP 1.0 connection": amqp10_rows(amqp10.CONNECTION_RECEIVED, amqp10.CONNECTION_SENT),
    "AMQP 1.0 session": amqp10_rows(amqp10.SESSION_RECEIVED, amqp10.SESSION_SENT),
    "AMQP 1.0 link": amqp10_rows(amqp10.LINK_RECEIVED, amqp10.LINK_SENT),
    "replicated message": message_rows(),
}


def drawing(table: list[Row]) -> str:
    """One arrow for each pair of states, in the order of the table."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for source, target, said in table:
        arrows.setdefault((source, target), []).append(said)
    lines = [
        f"    {source} --> {target}: {', '.join(said)}" for (source, target), said in arrows.items()
    ]
    return "\n".join(["stateDiagram-v2", *lines, ""])


def drawings(text: str) -> dict[str, str]:
    return dict(DRAWING.findall(text))


def redrawn(text: str) -> str:
    def replace(found: re.Match[str]) -> str:
        return f"<!-- {found[1]} -->\n```mermaid\n{drawing(TABLES[found[1]])}```"

    return DRAWING.sub(replace, text)


def test_every_state_table_is_drawn() -> None:
    assert set(drawings(PAGE.read_text("utf-8"))) == set(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_a_drawing_is_that_of_its_table(name: str) -> None:
    shown = drawings(PAGE.read_text("utf-8"))[name]
    assert shown == drawing(TABLES[name]), "run python -m tests.test_docs_states"


@pytest.mark.parametrize("name", TABLES)
def test_a_planted_wrong_arrow_is_found(name: str) -> None:
    text = PAGE.read_text("utf-8")
    arrow = drawings(text)[name].splitlines()[1]
    source, target, label = re.split(r" --> |: ", arrow.strip(), maxsplit=2)
    planted = text.replace(arrow, f"    {target} --> {source}: {label} planted", 1)
    assert drawings(planted)[name] != drawing(TABLES[name])
    assert redrawn(planted) == text


if __name__ == "__main__":
    PAGE.write_text(redrawn(PAGE.read_text("utf-8")), "utf-8")
