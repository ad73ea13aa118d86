"""Definitions from files into a running node, and out of it. `broker/definitions` does the work."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from penstock.broker.access.actor import NOBODY, Actor
from penstock.broker.access.new_password import NewPasswords
from penstock.broker.definitions.exporting import export, export_steps, export_vhost
from penstock.broker.definitions.parsing import Definitions, DefinitionsRefused, parse
from penstock.broker.definitions.rehearsal import StepwiseRehearsal, rehearse
from penstock.server.world.entropy import MachineEntropy

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from penstock.broker.definitions.parsing import Step
    from penstock.node.node import Node


# Rows that are rehearsed in one step on the broker's loop, about two milliseconds; and those that are
# written, less than one.
REHEARSED_PER_STEP: Final = 50
EXPORTED_PER_STEP: Final = 100


def read_file(path: Path) -> object:
    """The JSON of a file. Raises `DefinitionsRefused` for one that cannot be read."""
    try:
        # Editors on Windows put a byte order mark in front.
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
    node.import_steps(rehearse(definitions, node.state, now), now, actor, origin)
    return definitions.warnings


class StepwiseImport:
    """An import that is rehearsed in steps, so that others have their turn between them, and then
    applied at once if nothing has changed meanwhile. Used on the broker's loop.
    """

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        # An earlier rehearsal may have added to them.
        self._warning_count = len(definitions.warnings)
        self._steps: list[Step] = []
        self._fingerprint: object = None

    def rehearse(self, node: Node) -> Generator[None, None, None]:
        """Raises `DefinitionsRefused`."""
        self._fingerprint = _fingerprint(node)
        rehearsal = StepwiseRehearsal(self._definitions, node.state)
        while rehearsal.step(REHEARSED_PER_STEP, 0):
            yield
        yield
        self._steps = rehearsal.result()

    def apply_if_fresh(self, node: Node, now: int, actor: Actor, origin: str) -> bool:
        """False, with nothing changed, when it has to be rehearsed again."""
        if self._fingerprint != _fingerprint(node):
            del self._definitions.warnings[self._warning_count :]
            return False
        node.import_steps(self._steps, now, actor, origin)
        return True

    def apply_now(self, node: Node, now: int, actor: Actor, origin: str) -> None:
        import_into(node, self._definitions, now, actor, origin)


def _fingerprint(node: Node) -> object:
    """Differs once anything was changed that definitions may meet."""
    state = node.state
    routes = sum(vhost.generation for vhost in state.vhosts.values())
    return state.definitions.change_count, len(state.vhosts), routes


def exported_in_steps(
    node: Node, vhost: str | None = None
) -> Generator[None, None, dict[str, object]]:
    """As `exported`, for somebody who lets others have their turn between the steps."""
    return export_steps(node.state, vhost, EXPORTED_PER_STEP)


def exported(node: Node, vhost: str | None = None) -> dict[str, object]:
    """The definitions of the whole broker, or of one virtual host."""
    return export(node.state) if vhost is None else export_vhost(node.state, vhost)
