"""Users in definitions: RabbitMQ's names for ways to hash, and what they are here."""

import base64
import binascii
from typing import Final

from penstock.broker.access.new_password import NewPasswords
from penstock.broker.access.users import (
    DEFAULT_USER,
    SHA256_PREFIX,
    SHA512_PREFIX,
    check_hash,
    check_scram_keys,
)
from penstock.broker.definitions.rows import Row
from penstock.broker.errors import PreconditionFailed
from penstock.broker.topology import PutUser

ARGON2ID: Final = "penstock_argon2id"
SHA256: Final = "rabbit_password_hashing_sha256"
SHA512: Final = "rabbit_password_hashing_sha512"
# Ours alone; RabbitMQ passes over keys that it does not know.
SCRAM_KEYS: Final = "penstock_scram_keys"


def user_command(row: Row, passwords: NewPasswords) -> PutUser:
    """The result is valid only if the row is not faulty afterwards."""
    name = row.name("name")
    if not row.faulty and (not name or name != name.encode(errors="replace").decode()):
        row.complain("name", "is empty or not a valid Unicode string")
    # What RabbitMQ keeps in its configuration as `loopback_users`: everybody knows this password.
    loopback_only = name == DEFAULT_USER
    password_hash, scram_keys = _secrets(row, passwords)
    return PutUser(name, password_hash, row.words("tags"), loopback_only, scram_keys)


def exported_hash(password_hash: str) -> tuple[str, str]:
    """Hash and algorithm. An argon2 text is wrapped in base64, without which RabbitMQ refuses the
    whole file; it then takes the user and lets nobody in until the password is set anew.
    """
    if not password_hash:
        return "", SHA256
    if password_hash.startswith(SHA256_PREFIX):
        return password_hash[len(SHA256_PREFIX) :], SHA256
    if password_hash.startswith(SHA512_PREFIX):
        return password_hash[len(SHA512_PREFIX) :], SHA512
    return base64.b64encode(password_hash.encode("ascii")).decode("ascii"), ARGON2ID


def _secrets(row: Row, passwords: NewPasswords) -> tuple[str, str]:
    """The hash and the SCRAM keys."""
    if "password" in row.table:
        return _secrets_of_password(row, passwords)
    keys = row.text_or(SCRAM_KEYS, "")
    if keys:
        try:
            check_scram_keys(keys)
        except PreconditionFailed as refusal:
            row.complain(SCRAM_KEYS, refusal.text)
    return _password_hash(row), keys


def _password_hash(row: Row) -> str:
    given = row.text_or("password_hash", "")
    algorithm = row.text_or("hashing_algorithm", SHA256)
    if row.faulty or not given:
        return ""
    if algorithm == SHA256:
        found = SHA256_PREFIX + given
    elif algorithm == SHA512:
        found = SHA512_PREFIX + given
    elif algorithm == ARGON2ID:
        found = _unwrapped(given)
    else:
        row.complain(
            "hashing_algorithm",
            f"'{algorithm}' is not supported; supported are {SHA256}, {SHA512} and {ARGON2ID}",
        )
        return ""
    try:
        check_hash(found)
    except PreconditionFailed as refusal:
        row.complain("password_hash", refusal.text)
    return found


def _secrets_of_password(row: Row, passwords: NewPasswords) -> tuple[str, str]:
    password = row.text("password")
    if row.faulty:
        return "", ""
    try:
        return passwords.secrets_of(password.encode(errors="surrogateescape"))
    except PreconditionFailed as refusal:
        row.complain("password", refusal.text)
        return "", ""


def _unwrapped(given: str) -> str:
    """The text without base64 is accepted as well: argon2's own tools print it."""
    if given.startswith("$"):
        return given
    try:
        return base64.b64decode(given, validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return given
