"""Definitions from files into a running node, and out of it. `broker/definitions` does the work."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.broker.access.actor import NOBODY, Actor
from penstock.broker.access.new_password import NewPasswords
from penstock.broker.definitions.exporting import export, export_vhost
from penstock.broker.definitions.parsing import Definitions, DefinitionsRefused, parse
from penstock.server.world.entropy import MachineEntropy

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.node.node import Node


def read_file(path: Path) -> object:
    """The JSON of a file. Raises `DefinitionsRefused` for one that cannot be read."""
    try:
        # Editors on Windows put a mark in front.
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        mistake = (
            f"{path} is not valid JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        )
    except RecursionError:
        mistake = f"{path} is nested too deeply"
    except (OSError, ValueError) as error:
        mistake = f"cannot read the definitions file {path}: {error}"
    raise DefinitionsRefused([mistake])


def prepare(
    definitions: object, vhost: str | None = None, makes_scram_keys: bool = True
) -> Definitions:
    """Parse definitions. May take a while, and needs no node: on any thread."""
    return parse(definitions, vhost, NewPasswords(MachineEntropy(), makes_scram_keys))


def import_into(
    node: Node, definitions: Definitions, now: int, actor: Actor = NOBODY, origin: str = ""
) -> list[str]:
    """Import all of it, or raise `DefinitionsRefused` with nothing changed. Returns warnings. The
    log has one line for all of it; `origin` is where it came from.
    """
    node.import_definitions(definitions, now, actor, origin)
    return definitions.warnings


def exported(node: Node, vhost: str | None = None) -> dict[str, object]:
    """Of the whole broker, or of one virtual host."""
    return export(node.state) if vhost is None else export_vhost(node.state, vhost)
