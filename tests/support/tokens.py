"""A provider of tokens: real keys, and tokens that are signed with them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import RSAAlgorithm

SERVER = "rabbit"
EVERYTHING = ("configure:*/*", "read:*/*/*", "write:*/*/*")


class Provider:
    """One key, and what signs with it. Held by a test."""

    def __init__(self, name: str = "key-1") -> None:
        self.name = name
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def pem(self) -> bytes:
        form = PublicFormat.SubjectPublicKeyInfo
        octets: bytes = self.key.public_key().public_bytes(Encoding.PEM, form)
        return octets

    def jwk(self, **more: object) -> dict[str, object]:
        row: dict[str, object] = json.loads(RSAAlgorithm.to_jwk(self.key.public_key()))
        return {**row, "kid": self.name, "use": "sig", **more}

    def write_set(self, file: Path) -> Path:
        file.write_text(json.dumps({"keys": [self.jwk()]}))
        return file

    def claims(self, *scopes: str, user: str = "ann", seconds: float = 3600) -> dict[str, Any]:
        return {
            "sub": user,
            "aud": [SERVER],
            "iss": "https://provider.example",
            "exp": int(time.time() + seconds),
            "scope": " ".join(f"{SERVER}.{scope}" for scope in scopes or EVERYTHING),
        }

    def token(
        self, *scopes: str, user: str = "ann", seconds: float = 3600, **changed: object
    ) -> str:
        """`changed` replaces claims; None removes one."""
        claims = {**self.claims(*scopes, user=user, seconds=seconds), **changed}
        return self.signed({name: value for name, value in claims.items() if value is not None})

    def signed(
        self, claims: dict[str, Any], algorithm: str = "RS256", name: str | None = None
    ) -> str:
        head = {"kid": self.name if name is None else name}
        token: str = jwt.encode(claims, self.key, algorithm, headers=head)
        return token
