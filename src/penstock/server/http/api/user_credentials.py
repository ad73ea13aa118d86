"""What is kept of a password, and users as tools of RabbitMQ see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.access.new_password import NewPasswords
from penstock.broker.definitions.rows import Row
from penstock.broker.definitions.users import exported_hash, user_command
from penstock.server.http.problems import Problem
from penstock.server.world.entropy import MachineEntropy

if TYPE_CHECKING:
    from penstock.broker.access.users import User
    from penstock.broker.topology import SetUserLimits

MAX_CONNECTIONS = "max-connections"
MAX_CHANNELS = "max-channels"


def credentials_of(password: str, makes_scram_keys: bool) -> tuple[str, str]:
    """The hash and the SCRAM keys of a new password. Takes tens of milliseconds on purpose: in a
    worker thread. The empty password is none, and opens nothing.
    """
    if not password:
        return "", ""
    passwords = NewPasswords(MachineEntropy(), makes_scram_keys)
    return passwords.secrets_of(password.encode(errors="surrogateescape"))


def hash_in(name: str, body: dict[str, object]) -> str:
    """The hash that a body brings along, as definitions do. Raises a `Problem`."""
    mistakes: list[str] = []
    table: dict[str, object] = {"name": name}
    for key in ("password_hash", "hashing_algorithm"):
        if key in body:
            table[key] = body[key]
    command = user_command(Row(name, table, mistakes), NewPasswords(MachineEntropy()))
    if mistakes:
        raise Problem(400, mistakes[0])
    return command.password_hash


def user_row(user: User, limits: SetUserLimits) -> dict[str, object]:
    password_hash, algorithm = exported_hash(user.password_hash)
    return {
        "name": user.name,
        "password_hash": password_hash,
        "hashing_algorithm": algorithm,
        "tags": list(user.tags),
        "limits": limits_row(limits),
    }


def limits_row(limits: SetUserLimits) -> dict[str, object]:
    row: dict[str, object] = {}
    if limits.max_channels >= 0:
        row[MAX_CHANNELS] = limits.max_channels
    if limits.max_connections >= 0:
        row[MAX_CONNECTIONS] = limits.max_connections
    return row
