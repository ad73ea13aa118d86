"""Penstock: an AMQP 0-9-1 broker.

Importing the package chooses the build (see builds) and nothing more; `Broker` is imported on first
access, so that the command line and the sans-IO rooms start without the server.
"""

from typing import TYPE_CHECKING

from penstock import builds

if TYPE_CHECKING:
    from penstock.server.in_process import Broker

__all__ = ["Broker", "__version__"]

__version__ = "0.1.0"

builds.choose()


def __getattr__(name: str) -> object:
    if name == "Broker":
        from penstock.server.in_process import Broker

        return Broker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
