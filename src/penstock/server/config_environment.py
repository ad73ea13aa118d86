"""Environment variables that override the configuration file: PENSTOCK_LISTEN_PORT is listen.port.

Light to import: every start of a broker looks whether there are any, and reads the tables only then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_START: Final = "PENSTOCK_"
# The tables of the file. Other variables that begin with PENSTOCK_ belong to others.
TABLES: Final = (
    "listen",
    "tls",
    "limits",
    "memory",
    "data",
    "login",
    "oauth2",
    "amqp10",
    "definitions",
    "log",
    "http",
    "cluster",
)


def variable_of(table: str, key: str) -> str:
    return f"{_START}{table}_{key}".upper()


def variables_in(environment: Mapping[str, str]) -> dict[str, str]:
    """Those that are meant for a table, known keys or not: a misspelt one must not go unseen."""
    starts = tuple(f"{_START}{table.upper()}_" for table in TABLES)
    return {name: text for name, text in sorted(environment.items()) if name.startswith(starts)}
