"""TLS as the server sees it: peers that are not connections yet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from penstock.server.sockets import SocketProtocol
    from penstock.server.tls_settings import ListenerTls


class Handshakes(ABC):
    """Held by the server when TLS is configured."""

    @abstractmethod
    def __len__(self) -> int:
        """How many are under way."""

    @abstractmethod
    def cut_oldest(self) -> bool:
        """Make room for somebody else. Whether there was one."""

    @abstractmethod
    def upgrade(
        self, inner: SocketProtocol, raw: asyncio.Transport, first: bytes
    ) -> asyncio.Transport:
        """TLS begins on a socket that `inner` has read in the clear so far; `first` is what was
        read beyond that. Returns what `inner` writes to from now on.
        """

    @abstractmethod
    def reload(self, files: ListenerTls | None = None) -> str:
        """Read the certificates again, or others. Returns why that failed, or nothing."""

    @abstractmethod
    def close(self) -> None:
        """Nobody is let in any more."""
