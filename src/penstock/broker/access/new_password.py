"""What is stored of a password that is set: its hash, and its keys for SCRAM-SHA-256."""

from penstock.broker.access.users import hash_password, scram_keys_of
from penstock.world.entropy import Entropy


class NewPasswords:
    """Makes the secrets of new passwords; takes tens of milliseconds for each. Held by whoever
    takes passwords in: the HTTP API, the import of definitions, the in-process broker.
    """

    def __init__(self, entropy: Entropy, makes_scram_keys: bool = True) -> None:
        self._entropy: Entropy = entropy
        self._makes_scram_keys: bool = makes_scram_keys

    def secrets_of(self, password: bytes) -> tuple[str, str]:
        """The hash and the SCRAM keys, which are empty when the operator wants none stored. Raises
        `PreconditionFailed` for a password that is too long or empty.
        """
        password_hash = hash_password(password, self._entropy)
        keys = scram_keys_of(password, self._entropy) if self._makes_scram_keys else ""
        return password_hash, keys
